package provider_test

import (
	"context"
	"errors"
	"testing"

	"agenthost/internal/modeltest"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
)

// An error names the model, the status, the address and the attempt, with what a
// person can do. Clients get it without the address.
func TestErrorHints(t *testing.T) {
	const chat = "https://api.openai.com/v1/chat/completions"
	for _, tt := range []struct {
		name         string
		err          model.Error
		want, client string
	}{
		{
			"rate limit",
			model.Error{Code: 429, Status: "RESOURCE_EXHAUSTED", Message: "slow down", URL: chat},
			"openai/failing: 429 RESOURCE_EXHAUSTED: slow down (POST " + chat + ", attempt 3 of 3)",
			"slow down (HTTP 429, attempt 3 of 3)",
		},
		{
			"wrong key",
			model.Error{Code: 401, Status: "UNAUTHENTICATED", Message: "Incorrect API key", URL: chat},
			"openai/failing: 401 UNAUTHENTICATED: Incorrect API key (POST " + chat + "); check the key: `agenthost models` prints where it comes from",
			"Incorrect API key (HTTP 401); check the key: `agenthost models` prints where it comes from",
		},
		{
			"forbidden",
			model.Error{Code: 403, Message: "no access", URL: chat},
			"openai/failing: 403: no access (POST " + chat + "); check that the key may use this model: its project, permissions and region",
			"no access (HTTP 403); check that the key may use this model: its project, permissions and region",
		},
		{
			"no credit",
			model.Error{Code: 429, Message: "no quota", Reason: "insufficient_quota", URL: chat},
			"openai/failing: 429: no quota (POST " + chat + "); add credit to the account, or declare a fallback for the model",
			"no quota (HTTP 429); add credit to the account, or declare a fallback for the model",
		},
		{
			"payment required",
			model.Error{Code: 402, Message: "pay", URL: chat},
			"openai/failing: 402: pay (POST " + chat + "); add credit to the account, or declare a fallback for the model",
			"pay (HTTP 402); add credit to the account, or declare a fallback for the model",
		},
		{
			"unknown model",
			model.Error{Code: 404, Message: "no such model", URL: chat},
			"openai/failing: 404: no such model (POST " + chat + "); check the model's name and region: GET /v1/models of the service lists the names",
			"no such model (HTTP 404); check the model's name and region: GET /v1/models of the service lists the names",
		},
		{
			"region",
			model.Error{Code: 400, Message: "User location is not supported for the API use.", URL: chat},
			"openai/failing: 400: User location is not supported for the API use. (POST " + chat + "); use the model in a region that has it, or through another provider",
			"User location is not supported for the API use. (HTTP 400); use the model in a region that has it, or through another provider",
		},
		{
			"context",
			model.Error{Code: 400, Message: "prompt is too long: 201234 tokens > 200000 maximum", URL: chat},
			"openai/failing: 400: prompt is too long: 201234 tokens > 200000 maximum (POST " + chat + "); shorten the conversation with session_window, events_compaction_config or context_filter, use a model with a larger context, or declare one as a fallback on context_window",
			"prompt is too long: 201234 tokens > 200000 maximum (HTTP 400); shorten the conversation with session_window, events_compaction_config or context_filter, use a model with a larger context, or declare one as a fallback on context_window",
		},
		{
			"context of a local server",
			model.Error{Code: 500, Message: "Context size has been exceeded.", URL: chat},
			"openai/failing: 500: Context size has been exceeded. (POST " + chat + "); shorten the conversation with session_window, events_compaction_config or context_filter, use a model with a larger context, or declare one as a fallback on context_window",
			"Context size has been exceeded. (HTTP 500); shorten the conversation with session_window, events_compaction_config or context_filter, use a model with a larger context, or declare one as a fallback on context_window",
		},
		{
			"timeout",
			model.Error{Message: "timeout after 5m0s without a first byte", Err: context.DeadlineExceeded, URL: chat},
			"openai/failing: timeout after 5m0s without a first byte (POST " + chat + ", attempt 3 of 3); check the service, raise the model's timeouts, or declare a fallback",
			"timeout after 5m0s without a first byte (attempt 3 of 3); check the service, raise the model's timeouts, or declare a fallback",
		},
		{
			"connection",
			model.Error{Message: "no response: connection refused", URL: chat},
			"openai/failing: no response: connection refused (POST " + chat + ", attempt 3 of 3); check base_url and that the service is reachable",
			"no response: connection refused (attempt 3 of 3); check base_url and that the service is reachable",
		},
		{
			"no request was sent",
			model.Error{Code: 401, Status: "UNAUTHENTICATED", Message: "no key for OpenAI: set OPENAI_API_KEY"},
			"openai/failing: 401 UNAUTHENTICATED: no key for OpenAI: set OPENAI_API_KEY",
			"no key for OpenAI: set OPENAI_API_KEY",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var waited modeltest.Waits
			llm := provider.Retry(&failing{9, &tt.err}, &provider.RetryOptions{Provider: "openai", Wait: waited.Wait})
			_, err := modeltest.Ask(t, llm, false)
			if got := modeltest.ErrorText(err); got != tt.want {
				t.Errorf("Error() =\n%s, want\n%s", got, tt.want)
			}
			failed, ok := errors.AsType[*model.Error](err)
			if !ok {
				t.Fatalf("Generate() = %T, want a *model.Error", err)
			}
			if got := failed.ClientMessage(); got != tt.client {
				t.Errorf("ClientMessage() =\n%s, want\n%s", got, tt.client)
			}
		})
	}
}
