package model

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"
)

func TestAppendInstruction(t *testing.T) {
	tests := []struct {
		name  string
		texts []string
		want  string
	}{
		{"none", nil, ""},
		{"one", []string{"Be brief."}, "Be brief."},
		{"two", []string{"Be brief.", "Answer in English."}, "Be brief.\n\nAnswer in English."},
		{"empty changes nothing", []string{"Be brief.", ""}, "Be brief."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req := &Request{Config: &genai.GenerateContentConfig{}}
			for _, s := range tt.texts {
				req.AppendInstruction(s)
			}
			if got := req.Instruction(); got != tt.want {
				t.Errorf("Instruction() = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestAppendInstructionLeavesTheOldContent(t *testing.T) {
	shared := &genai.Content{Parts: []*genai.Part{{Text: "Be brief."}}}
	req := &Request{Config: &genai.GenerateContentConfig{SystemInstruction: shared}}
	req.AppendInstruction("Answer in English.")
	if got := TextOf(shared); got != "Be brief." {
		t.Errorf("the shared instruction is %q, want it unchanged", got)
	}
}

func TestInstructionWithoutConfig(t *testing.T) {
	if got := (&Request{}).Instruction(); got != "" {
		t.Errorf("Instruction() = %q, want none", got)
	}
}

func TestResponseClone(t *testing.T) {
	r := &Response{Content: ModelText("a"), CustomMetadata: map[string]any{"k": "v"}}
	c := r.Clone()
	c.CustomMetadata["k"] = "other"
	if got := r.CustomMetadata["k"]; got != "v" {
		t.Errorf("the original has %v after a change of the clone, want v", got)
	}
	if c.Content != r.Content {
		t.Error("the content was copied, want it shared")
	}
}

func TestTextOf(t *testing.T) {
	content := func(parts ...*genai.Part) *genai.Content { return &genai.Content{Parts: parts} }
	tests := []struct {
		name string
		in   *genai.Content
		want string
	}{
		{"nil", nil, ""},
		{"no parts", content(), ""},
		{"one text", content(text("a")), "a"},
		{"one thought", content(thought("a")), ""},
		{"texts without separator", content(text("a"), text("b")), "ab"},
		{"thoughts are left out", content(thought("hm"), text("a"), thought("hm"), text("b")), "ab"},
		{"a call has none", content(text("a"), call("f")), "a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := TextOf(tt.in); got != tt.want {
				t.Errorf("TextOf = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestCallsAndResponsesOf(t *testing.T) {
	answer := &genai.Part{FunctionResponse: &genai.FunctionResponse{Name: "g"}}
	c := &genai.Content{Parts: []*genai.Part{text("a"), call("f"), answer, call("h")}}

	if diff := cmp.Diff([]*genai.FunctionCall{{Name: "f"}, {Name: "h"}}, CallsOf(c)); diff != "" {
		t.Errorf("CallsOf (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]*genai.FunctionResponse{{Name: "g"}}, ResponsesOf(c)); diff != "" {
		t.Errorf("ResponsesOf (-want +got):\n%s", diff)
	}
	if got := CallsOf(nil); got != nil {
		t.Errorf("CallsOf(nil) = %v, want nil", got)
	}
	if got := ResponsesOf(nil); got != nil {
		t.Errorf("ResponsesOf(nil) = %v, want nil", got)
	}
}

func TestTextContentsByRole(t *testing.T) {
	for role, c := range map[string]*genai.Content{"user": UserText("hi"), "model": ModelText("hi")} {
		if c.Role != role || TextOf(c) != "hi" {
			t.Errorf("%s text = role %q, text %q", role, c.Role, TextOf(c))
		}
	}
}

func TestErrorTextAndRetry(t *testing.T) {
	cut := errors.New("connection cut")
	tests := []struct {
		name  string
		in    *Error
		text  string
		code  string
		retry bool
	}{
		{"code and status", &Error{Code: 429, Status: "RESOURCE_EXHAUSTED", Message: "slow down"}, "model: 429 RESOURCE_EXHAUSTED: slow down", "RESOURCE_EXHAUSTED", true},
		{"code alone", &Error{Code: 503, Message: "overloaded"}, "model: 503: overloaded", "503", true},
		{"no answer", &Error{Message: "connection cut", Err: cut}, "model: connection cut", "MODEL_ERROR", true},
		{"timeout of the service", &Error{Code: 408, Message: "too slow"}, "model: 408: too slow", "408", true},
		{"a wrong request", &Error{Code: 400, Status: "INVALID_ARGUMENT", Message: "no such model"}, "model: 400 INVALID_ARGUMENT: no such model", "INVALID_ARGUMENT", false},
		{"forbidden", &Error{Code: 403, Message: "no"}, "model: 403: no", "403", false},
		{"the caller gave up", &Error{Message: "canceled", Err: fmt.Errorf("asking: %w", context.Canceled)}, "model: canceled", "MODEL_ERROR", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.in.Error(); got != tt.text {
				t.Errorf("Error() = %q, want %q", got, tt.text)
			}
			if got := tt.in.EventCode(); got != tt.code {
				t.Errorf("EventCode() = %q, want %q", got, tt.code)
			}
			if got := tt.in.Retryable(); got != tt.retry {
				t.Errorf("Retryable() = %v, want %v", got, tt.retry)
			}
		})
	}
}

func TestErrorCause(t *testing.T) {
	cause := errors.New("cut")
	err := fmt.Errorf("step 2: %w", &Error{Message: "no answer", Err: cause})
	if !errors.Is(err, cause) {
		t.Error("errors.Is does not find the cause")
	}
	if me, ok := errors.AsType[*Error](err); !ok || me.Message != "no answer" {
		t.Errorf("errors.AsType = %v, %v", me, ok)
	}
}
