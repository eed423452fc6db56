package modeltest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/pkg/model"
)

// CheckGolden compares JSON with a testdata file, or rewrites the file if update is set.
func CheckGolden(t *testing.T, update bool, name string, v any) {
	t.Helper()
	var got bytes.Buffer
	e := json.NewEncoder(&got)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name)
	if update {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("%s differs, see the diff of -update (-want +got):\n%s", path, diff)
	}
}

// pngData and pdfData are what services recognize as an image and as a document.
const (
	PngData = "\x89PNG\r\n\x1a\n"
	PdfData = "%PDF-1.7"
)

// WholeRequest has everything that a conversation may contain: several vendors' files, thoughts and
// signatures, parallel calls with and without IDs, responses with files, a call without a response,
// a response without a call, and all settings that several services have.
func WholeRequest(own string) *model.Request {
	req := ScriptInput("And now?", false)
	req.Contents = []*genai.Content{
		{Role: "user", Parts: []*genai.Part{
			{Text: "What is this?"},
			{InlineData: &genai.Blob{MIMEType: "image/png", Data: []byte(PngData)}},
			{InlineData: &genai.Blob{MIMEType: "text/plain; charset=utf-8", Data: []byte("notes")}},
		}},
		{Role: "model", Parts: []*genai.Part{
			{Text: "Gemini thinks.", Thought: true, ThoughtSignature: []byte("of Gemini")},
			{Text: "Claude thinks.", Thought: true, ThoughtSignature: []byte("of Claude"), PartMetadata: map[string]any{"vendor": "anthropic", "model": "claude-x"}},
			{Text: "I thought.", Thought: true, PartMetadata: map[string]any{"vendor": own, "model": "x"}},
			{Text: "An old answer."},
		}},
		model.UserText("Look at both."),
		{Role: "model", Parts: []*genai.Part{
			{Text: "I think.", Thought: true, PartMetadata: map[string]any{"vendor": own, "model": "x"}},
			{Text: "Let me see."},
			{FunctionCall: &genai.FunctionCall{Name: "look", Args: map[string]any{"at": "a"}}, ThoughtSignature: []byte("of Gemini")},
			{FunctionCall: &genai.FunctionCall{Name: "look", Args: nil}},
			{FunctionCall: &genai.FunctionCall{ID: "own", Name: "ask"}},
			{FunctionCall: &genai.FunctionCall{ID: "lost", Name: "ask"}},
		}},
		{Role: "user", Parts: []*genai.Part{
			{FunctionResponse: &genai.FunctionResponse{Name: "look", Response: map[string]any{"n": 1}, Parts: []*genai.FunctionResponsePart{
				{InlineData: &genai.FunctionResponseBlob{MIMEType: "image/png", Data: []byte(PngData)}},
			}}},
			{FunctionResponse: &genai.FunctionResponse{ID: "own", Name: "ask", Response: map[string]any{"n": 2}}},
			{FunctionResponse: &genai.FunctionResponse{Name: "look", Response: map[string]any{"n": 3}}},
		}},
	}
	low, seed := float32(0.5), int32(7)
	req.Config = &genai.GenerateContentConfig{
		SystemInstruction: model.UserText("Be kind."), Temperature: &low, TopP: &low, TopK: genai.Ptr(float32(40)), MaxOutputTokens: 100, StopSequences: []string{"END"}, Seed: &seed,
		Tools: []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{
			{Name: "look", Description: "Looks.", ParametersJsonSchema: map[string]any{"type": "object"}},
			{Name: "ask", Parameters: &genai.Schema{Type: genai.TypeObject, Properties: map[string]*genai.Schema{"q": {Type: genai.TypeString, MaxLength: genai.Ptr(int64(9))}}}},
		}}},
		ToolConfig: &genai.ToolConfig{FunctionCallingConfig: &genai.FunctionCallingConfig{Mode: genai.FunctionCallingConfigModeAuto}},
		ResponseJsonSchema: map[string]any{
			"title": "Answer of a look", "type": "object", "required": []any{"text"},
			"properties": map[string]any{"text": map[string]any{"type": "string"}, "more": map[string]any{"$ref": "#/$defs/more", "description": "More."}},
			"$defs":      map[string]any{"more": map[string]any{"type": "object", "properties": map[string]any{"n": map[string]any{"type": "integer"}}}},
		},
		ResponseMIMEType: "application/json",
		ThinkingConfig:   &genai.ThinkingConfig{ThinkingLevel: genai.ThinkingLevelLow},
	}
	return req
}

// BodyOf returns a value as JSON.
func BodyOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
