package model

import (
	"testing"

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
