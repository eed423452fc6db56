package builtin

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/toolconfig"
	"agenthost/internal/tooltest"
	"agenthost/pkg/model"
	"agenthost/pkg/tool"
)

func blob(kind, content string) *genai.Part {
	return &genai.Part{InlineData: &genai.Blob{MIMEType: kind, Data: []byte(content)}}
}

func asked(names any) *genai.Content {
	return &genai.Content{Role: genai.RoleUser, Parts: []*genai.Part{{FunctionResponse: &genai.FunctionResponse{
		Name: "load_artifacts", Response: map[string]any{"artifact_names": names},
	}}}}
}

func TestLoadArtifactsRun(t *testing.T) {
	tests := []struct {
		name string
		args map[string]any
		want any
	}{
		{"names", map[string]any{"artifact_names": []any{"a", "b"}}, []any{"a", "b"}},
		{"none", nil, []any{}},
		{"null", map[string]any{"artifact_names": nil}, []any{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := builtin(t, "load_artifacts").Run(t.Context(), tooltest.NewCall(tt.args, nil))
			if err != nil {
				t.Fatalf("Run: %v", err)
			}
			want := map[string]any{"artifact_names": tt.want, "status": loadedStatus}
			if diff := cmp.Diff(want, got.Response); diff != "" {
				t.Errorf("response (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLoadArtifactsDeclaration(t *testing.T) {
	got := builtin(t, "load_artifacts").Declaration().ParametersJsonSchema
	want := map[string]any{"type": "object", "properties": map[string]any{"artifact_names": map[string]any{
		"type": "array", "items": map[string]any{"type": "string"}, "description": "The names of the artifacts.",
	}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("parameters (-want +got):\n%s", diff)
	}
}

func TestLoadArtifactsEditsRequest(t *testing.T) {
	parts := map[string]*genai.Part{
		"a.csv": blob("application/csv", "x,y"), "user:b <1>.png": blob("image/png", "\x89PNG"), "user:a.csv": {Text: "not this one"},
	}
	hello := model.UserText("hello")
	answerThen := &genai.Content{Role: genai.RoleUser, Parts: append([]*genai.Part{{Text: "first"}}, asked([]any{"a.csv"}).Parts...)}
	other := &genai.Content{Parts: []*genai.Part{{FunctionResponse: &genai.FunctionResponse{
		Name: "other", Response: map[string]any{"artifact_names": []any{"a.csv"}},
	}}}}
	csv := &genai.Content{Role: "user", Parts: []*genai.Part{{Text: "Artifact a.csv is:"}, {Text: "x,y"}}}
	png := &genai.Content{Role: "user", Parts: []*genai.Part{{Text: "Artifact b <1>.png is:"}, parts["user:b <1>.png"]}}
	tests := []struct {
		name     string
		contents []*genai.Content
		want     []*genai.Content
	}{
		{"no request", []*genai.Content{hello}, nil},
		{"no contents", nil, nil},
		{"no parts", []*genai.Content{{}}, nil},
		{"session first, else the user's", []*genai.Content{asked([]any{"a.csv", "b <1>.png"})}, []*genai.Content{csv, png}},
		{"names as Go has them", []*genai.Content{asked([]string{"a.csv"})}, []*genai.Content{csv}},
		{"what is not there is left out", []*genai.Content{asked([]any{"none", "user:none", 7, "a.csv"})}, []*genai.Content{csv}},
		{"only right after the answer", []*genai.Content{asked([]any{"a.csv"}), hello}, nil},
		{"only in the first part", []*genai.Content{answerThen}, nil},
		{"only of this tool", []*genai.Content{other}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			shared := append(make([]*genai.Content, 0, 8), tt.contents...)
			req := &model.Request{Contents: shared, Config: &genai.GenerateContentConfig{}}
			call := tooltest.NewCall(nil, nil)
			call.Artifacts = tooltest.MemArtifacts{Parts: parts}
			if err := builtin(t, "load_artifacts").(tool.RequestEditor).EditRequest(t.Context(), call, req); err != nil {
				t.Fatalf("EditRequest: %v", err)
			}
			if diff := cmp.Diff(tt.want, req.Contents[len(tt.contents):len(req.Contents):len(req.Contents)], emptyIsNil()); diff != "" {
				t.Errorf("appended (-want +got):\n%s", diff)
			}
			if !strings.HasPrefix(req.Instruction(), "You have access to these artifacts:\n  [\"a.csv\",\"user:a.csv\",\"user:b <1>.png\"]\n") {
				t.Errorf("instruction = %q", req.Instruction())
			}
			if rest := shared[len(shared):cap(shared)]; rest[0] != nil {
				t.Errorf("EditRequest wrote %v into the shared list", rest[0])
			}
		})
	}
}

func emptyIsNil() cmp.Option {
	return cmp.Transformer("emptyIsNil", func(cs []*genai.Content) []*genai.Content {
		if len(cs) == 0 {
			return nil
		}
		return cs
	})
}

func TestLoadArtifactsWithoutArtifacts(t *testing.T) {
	req := &model.Request{Config: &genai.GenerateContentConfig{}, Contents: []*genai.Content{asked([]any{"a"})}}
	edit(t, builtin(t, "load_artifacts"), req)
	if req.Instruction() != "" || len(req.Contents) != 1 {
		t.Errorf("EditRequest changed the request: %q, %d contents", req.Instruction(), len(req.Contents))
	}
}

func TestLoadArtifactsFailures(t *testing.T) {
	down := errors.New("disk is gone")
	call := tooltest.NewCall(nil, nil)
	call.Artifacts = tooltest.MemArtifacts{Parts: map[string]*genai.Part{"a": {Text: "x"}}, Fail: down}
	req := &model.Request{Config: &genai.GenerateContentConfig{}, Contents: []*genai.Content{asked([]any{"a"})}}
	err := builtin(t, "load_artifacts").(tool.RequestEditor).EditRequest(t.Context(), call, req)
	if !errors.Is(err, down) || err.Error() != "listing artifacts: disk is gone" {
		t.Errorf("EditRequest = %v", err)
	}
	_, err = (&loadArtifactsTool{}).loadContents(t.Context(), call.Artifacts, []string{"a"})
	if !errors.Is(err, down) || err.Error() != "loading artifact a: disk is gone" {
		t.Errorf("load = %v", err)
	}
}

func TestLoadArtifactsMissing(t *testing.T) {
	var log bytes.Buffer
	tool := &loadArtifactsTool{log: slog.New(slog.NewTextHandler(&log, nil))}
	if got, err := tool.loadContents(t.Context(), tooltest.MemArtifacts{}, []string{"lost.txt"}); got != nil || err != nil {
		t.Errorf("load = %v, %v, want nothing", got, err)
	}
	if want := `level=WARN msg="requested artifact not found" artifact=lost.txt`; !strings.Contains(log.String(), want) {
		t.Errorf("log = %q, want %q", log.String(), want)
	}
}

func TestTextOrMedia(t *testing.T) {
	const binary = ". Content cannot be displayed inline.]"
	tests := []struct {
		name     string
		in, want *genai.Part
	}{
		{"text", &genai.Part{Text: "x"}, &genai.Part{Text: "x"}},
		{"a file elsewhere", genai.NewPartFromURI("gs://b/f", "text/csv"), genai.NewPartFromURI("gs://b/f", "text/csv")},
		{"image", blob("image/png", "\x89"), blob("image/png", "\x89")},
		{"audio", blob("audio/wav", "R"), blob("audio/wav", "R")},
		{"video", blob("video/mp4", "R"), blob("video/mp4", "R")},
		{"pdf", blob("application/pdf", "%PDF"), blob("application/pdf", "%PDF")},
		{"any text", blob("text/markdown; charset=utf-8", "# x"), &genai.Part{Text: "# x"}},
		{"csv", blob("application/csv", "a,b"), &genai.Part{Text: "a,b"}},
		{"json", blob("Application/JSON", "{}"), &genai.Part{Text: "{}"}},
		{"xml", blob("application/xml", "<a/>"), &genai.Part{Text: "<a/>"}},
		{"bad text", blob("text/plain", "a\xff"), &genai.Part{Text: "a\uFFFD"}},
		{"empty text", blob("text/plain", ""), &genai.Part{Text: "[Binary artifact: f, type: text/plain, size: 0.0 KB" + binary}},
		{
			"other bytes", blob("application/zip", strings.Repeat("x", 1536)),
			&genai.Part{Text: "[Binary artifact: f, type: application/zip, size: 1.5 KB" + binary},
		},
		{
			"unknown bytes", blob("", "x"),
			&genai.Part{Text: "[Binary artifact: f, type: application/octet-stream, size: 0.0 KB" + binary},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, toolconfig.TextOrMedia("f", tt.in)); diff != "" {
				t.Errorf("readable (-want +got):\n%s", diff)
			}
		})
	}
}
