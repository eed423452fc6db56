package provider

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"agenthost/internal/limit"
	"agenthost/internal/modelcall"
	"agenthost/pkg/model"
)

// A failureKind is why a model call failed. Those with a name in a fallback's `on` have that name.
type failureKind string

const (
	failRateLimit     failureKind = "rate_limit"
	failOverloaded    failureKind = "overloaded"
	failConnection    failureKind = "connection"
	failTimeout       failureKind = "timeout"
	failCredit        failureKind = "credit"
	failContextWindow failureKind = "context_window"
	failRefusal       failureKind = "refusal"

	failKey      failureKind = "key"
	failNotFound failureKind = "not_found"
	failRegion   failureKind = "region"
	failOther    failureKind = ""
)

// failurePatterns are reasons and, in lower case, message parts from services that have no status
// for a kind of failure.
var failurePatterns = []struct {
	kind     failureKind
	codes    []int
	reasons  []string
	messages []string
}{
	{
		failContextWindow,
		[]int{http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusInternalServerError},
		[]string{"context_length_exceeded"},
		[]string{"maximum context length", "context window", "context length", "context limit", "context size", "prompt is too long", "input is too long", "input token count", "exceeds the maximum number of tokens"},
	},
	{
		failCredit,
		[]int{http.StatusBadRequest, http.StatusForbidden, http.StatusTooManyRequests},
		[]string{"insufficient_quota", "billing_hard_limit_reached", "billing_error", "BILLING_DISABLED"},
		[]string{"credit balance is too low", "insufficient balance", "credits are depleted", "requires billing to be enabled"},
	},
	{
		failNotFound,
		[]int{http.StatusBadRequest},
		[]string{"model_not_found"},
		[]string{"model not exist", "invalid model:", "is not a valid model id"},
	},
	{
		failRegion,
		[]int{http.StatusBadRequest, http.StatusForbidden},
		[]string{"unsupported_country_region_territory"},
		[]string{"location is not supported"},
	},
	{
		failKey,
		[]int{http.StatusBadRequest},
		[]string{"API_KEY_INVALID", "invalid_api_key"},
		[]string{"api key not valid", "api key expired"},
	},
}

// kindOfFailure returns why a call failed.
func kindOfFailure(e *model.Error) failureKind {
	message := strings.ToLower(e.Message)
	for _, p := range failurePatterns {
		has := func(part string) bool { return strings.Contains(message, part) }
		if slices.Contains(p.codes, e.Code) && (slices.Contains(p.reasons, e.Reason) || slices.ContainsFunc(p.messages, has)) {
			return p.kind
		}
	}
	switch e.Code {
	case http.StatusUnauthorized, http.StatusForbidden:
		return failKey
	case http.StatusPaymentRequired:
		return failCredit
	case http.StatusNotFound:
		return failNotFound
	case http.StatusTooManyRequests:
		return failRateLimit
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, modelcall.OverloadedStatus:
		return failOverloaded
	case 0:
		if errors.Is(e.Err, context.Canceled) {
			return failOther
		}
		if _, tooLarge := errors.AsType[*limit.Error](e.Err); tooLarge {
			return failOther
		}
		if wait, ok := errors.AsType[net.Error](e.Err); ok && wait.Timeout() || e.Status == modelcall.StatusWord(http.StatusGatewayTimeout) {
			return failTimeout
		}
		return failConnection
	}
	return failOther
}

// hintFor returns what a person can do about a failure, or "".
func hintFor(kind failureKind, e *model.Error) string {
	switch kind {
	case failKey:
		if e.Code == http.StatusForbidden {
			return "check that the key may use this model: its project, permissions and region"
		}
		return "check the key: `agenthost models` prints where it comes from"
	case failCredit:
		return "add credit to the account, or declare a fallback for the model"
	case failNotFound:
		if list := modelListPath(e.URL); list != "" {
			return "check the model's name and region: GET " + list + " of the service lists the names"
		}
		return "check the model's name and region"
	case failRegion:
		return "use the model in a region that has it, or through another provider"
	case failContextWindow:
		return "shorten the conversation with session_window, events_compaction_config or context_filter, use a model with a larger context, or declare one as a fallback on context_window"
	case failTimeout:
		return "check the service, raise the model's timeouts, or declare a fallback"
	case failConnection:
		return "check base_url and that the service is reachable"
	}
	return ""
}

// modelListPath returns the path of an API's model list, or "".
func modelListPath(call string) string {
	u, err := url.Parse(call)
	if err != nil {
		return ""
	}
	for _, end := range []string{"/chat/completions", "/responses", "/messages"} {
		if base, ok := strings.CutSuffix(u.Path, end); ok {
			return base + "/models"
		}
	}
	if base, ok := strings.CutSuffix(u.Path, "/api/chat"); ok {
		return base + "/api/tags"
	}
	if base, _, ok := strings.Cut(u.Path, "/models/"); ok && !strings.Contains(base, "/publishers/") {
		return base + "/models"
	}
	return ""
}
