package model

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"
)

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

func TestTexts(t *testing.T) {
	for role, c := range map[string]*genai.Content{"user": UserText("hi"), "model": ModelText("hi")} {
		if c.Role != role || TextOf(c) != "hi" {
			t.Errorf("%s text = role %q, text %q", role, c.Role, TextOf(c))
		}
	}
}
