package tool

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/pkg/template"
)

// savedArtifacts describes the artifacts of a call: media type and content by name.
func savedArtifacts(from memArtifacts) map[string]string {
	all := map[string]string{}
	for name, part := range from.parts {
		all[name] = fmt.Sprintf("text %q", part.Text)
		if part.InlineData != nil {
			all[name] = fmt.Sprintf("%s %q", part.InlineData.MIMEType, part.InlineData.Data)
		}
	}
	return all
}

// A response that is neither JSON nor text becomes an artifact, and so does each response of
// a tool with the setting artifact.
func TestHTTPArtifacts(t *testing.T) {
	const params = "name: it\nparams: {id: \"string?\"}\nurl: HOST/files\n"
	tests := []struct {
		name, yaml string
		id         string
		h          http.HandlerFunc
		want       string
		saved      map[string]string
	}{
		{
			"an image", "", "7", respondWith(200, "image/png; v=1", "\x89PNG"),
			`{"artifact":"it-0f4636c7.png","mime_type":"image/png","size":4,"version":0}`,
			map[string]string{"it-0f4636c7.png": `image/png "\x89PNG"`},
		},
		{
			"a PDF in UTF-8", "", "7", respondWith(200, "application/pdf", "%PDF-1.7"),
			`{"artifact":"it-86edbaa2.pdf","mime_type":"application/pdf","size":8,"version":0}`,
			map[string]string{"it-86edbaa2.pdf": `application/pdf "%PDF-1.7"`},
		},
		{
			"bytes without a type", "", "7", respondWith(200, "application/octet-stream", "\x1f\x8b\x08\xff"),
			`{"artifact":"it-57db234b.gz","mime_type":"application/x-gzip","size":4,"version":0}`,
			map[string]string{"it-57db234b.gz": `application/x-gzip "\x1f\x8b\b\xff"`},
		},
		{
			"a type that is too long", "", "7", respondWith(200, "x/"+strings.Repeat("y", 200), "\xff\xfe\x00"),
			`{"artifact":"it-ba778c02.bin","mime_type":"application/octet-stream","size":3,"version":0}`,
			map[string]string{"it-ba778c02.bin": `application/octet-stream "\xff\xfe\x00"`},
		},
		{"an image in XML is text", "", "7", respondWith(200, "image/svg+xml", "<svg/>"), `{"result":"<svg/>"}`, map[string]string{}},
		{"text without a type", "", "7", respondWith(200, "application/octet-stream", "a,b"), `{"result":"a,b"}`, map[string]string{}},
		{
			"a name", "artifact: \"invoices/{args.id}.json\"", "7", respondWith(200, "application/json", `{"total": 3}`),
			`{"artifact":"invoices/7.json","mime_type":"application/json","size":12,"version":0}`,
			map[string]string{"invoices/7.json": `application/json "{\"total\": 3}"`},
		},
		{
			"a name of the user", "artifact: \"user:{args.id}.txt\"", "7", respondWith(200, "text/plain; charset=utf-8", "hi"),
			`{"artifact":"user:7.txt","mime_type":"text/plain","size":2,"version":0}`,
			map[string]string{"user:7.txt": `text/plain "hi"`},
		},
		{"an empty response", "artifact: a.txt", "7", respondWith(204, "", ""), `{"result":null}`, map[string]string{}},
		{
			"a result", "artifact: a.txt\nresult: '{\"file\": body.artifact}'", "7", respondWith(200, "text/plain", "hi"),
			`{"file":"a.txt"}`,
			map[string]string{"a.txt": `text/plain "hi"`},
		},
		{
			"an argument that selects the user", "artifact: \"{args.id}\"", "user:style.txt", respondWith(200, "text/plain", "hi"),
			`error: http tool it: artifact: artifact "user:style.txt" is an artifact of the user: only a name that begins with user: in the document can save one`,
			map[string]string{},
		},
		{
			"an argument that leaves the folder", "artifact: \"files/{args.id}\"", "../a", respondWith(200, "text/plain", "hi"),
			`error: http tool it: artifact: artifact name "files/../a" contains an empty, . or .. element: invalid`,
			map[string]string{},
		},
		{
			"a missing argument", "artifact: \"{args.id}\"", "", respondWith(200, "text/plain", "hi"),
			"error: http tool it: artifact: args.id has no value; if it is optional, write {args.id?}",
			map[string]string{},
		},
		{
			"a failed request for a file", "", "7", respondWith(404, "image/png", "\x89PNG"),
			"error: http tool it: 404 Not Found",
			map[string]string{},
		},
		{
			"a file that is too large", "max_response: 1KiB", "7", respondWith(200, "image/png", strings.Repeat("\xff", 1025)),
			"error: http tool it: the response exceeds the limit of 1 KiB",
			map[string]string{},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			it := buildHTTP(t, serve(t, tt.h), params+tt.yaml)
			args := map[string]any{}
			if tt.id != "" {
				args["id"] = tt.id
			}
			call, kept := newCall(args, nil), memArtifacts{parts: map[string]*genai.Part{}}
			call.Name, call.Artifacts = "it", kept
			if diff := cmp.Diff(tt.want, runAsText(t, it, call)); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.saved, savedArtifacts(kept)); diff != "" {
				t.Errorf("artifacts (-want +got):\n%s", diff)
			}
		})
	}
}

// runAsText returns the response of a call as JSON, or its error.
func runAsText(t *testing.T, it Tool, call *Call) string {
	t.Helper()
	got, err := it.Run(t.Context(), call)
	if err != nil {
		return "error: " + err.Error()
	}
	return template.String(got.Response)
}

func TestHTTPArtifactNotSaved(t *testing.T) {
	it := buildHTTP(t, serve(t, respondWith(200, "image/png", "\x89PNG")), "name: it\nurl: HOST")
	call := newCall(nil, nil)
	call.Name, call.Artifacts = "it", memArtifacts{parts: map[string]*genai.Part{}, fail: errors.New("disk full")}
	if got, want := runAsText(t, it, call), "error: http tool it: saving the artifact it-0f4636c7.png: disk full"; got != want {
		t.Errorf("result = %s, want %s", got, want)
	}
}

func TestHTTPArtifactDiagnostics(t *testing.T) {
	for _, tt := range []struct{ yaml, want string }{
		{"artifact: /etc/passwd", `artifact name "/etc/passwd" must be relative: invalid`},
		{"artifact: \"user:\"", `artifact name "user:" is empty: invalid`},
		{"artifact: \"{args.who}.txt\"", "{args.who}: unknown parameter; declared: none"},
		{"artifact: a.txt\nstream: {}", "artifact cannot be combined with stream: a response in events is not a file"},
	} {
		_, err := buildTool(t, "http", "name: it\ndescription: d\nurl: https://example.com\n"+tt.yaml)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error = %v, want %s", tt.yaml, err, tt.want)
		}
	}
}

// An expression saves artifacts: strings by the extension of the name, other values as JSON,
// and null not at all. If an expression fails, nothing is saved or written.
func TestExprSavesArtifacts(t *testing.T) {
	const head = "name: it\nparams: {title: string, n: \"integer?\"}\nvalue: '\"done\"'\nset: {last: args.title}\nsave_artifact:\n"
	tests := []struct {
		name, yaml string
		args       map[string]any
		want       string
		saved      map[string]string
	}{
		{
			"text", "  \"notes/{args.title}.MD\": args.title\n  a.csv: '\"x,y\"'\n  b.bin: '\"b\"'",
			map[string]any{"title": "milk"},
			`{"result":"done"}`,
			map[string]string{"notes/milk.MD": `text/markdown "milk"`, "a.csv": `text/csv "x,y"`, "b.bin": `text/plain "b"`},
		},
		{
			"values", "  a.txt: '{\"n\": args.n}'\n  b: 'args.n > 5 ? 1 : nil'\n  user:c.json: '[1]'",
			map[string]any{"title": "milk", "n": int64(3)},
			`{"result":"done"}`,
			map[string]string{"a.txt": `application/json "{\"n\":3}"`, "user:c.json": `application/json "[1]"`},
		},
		{
			"an expression that fails", "  a.txt: args.title\n  b.txt: 1 / (args.n - 3) - 1 / (args.n - 3)",
			map[string]any{"title": "milk", "n": int64(3)},
			"error: it: save_artifact: division by zero",
			map[string]string{},
		},
		{
			"an argument that selects the user", "  \"{args.title}\": args.title",
			map[string]any{"title": "user:style.txt"},
			`error: it: save_artifact: artifact "user:style.txt" is an artifact of the user: only a name that begins with user: in the document can save one`,
			map[string]string{},
		},
		{
			"an argument that leaves the folder", "  \"a/{args.title}\": args.title",
			map[string]any{"title": "../b"},
			`error: it: save_artifact: artifact name "a/../b" contains an empty, . or .. element: invalid`,
			map[string]string{},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			it := mustBuildTool(t, "expr", head+tt.yaml)
			call, kept := newCall(tt.args, nil), memArtifacts{parts: map[string]*genai.Part{}}
			call.Artifacts = kept
			got := runAsText(t, it, call)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.saved, savedArtifacts(kept)); diff != "" {
				t.Errorf("artifacts (-want +got):\n%s", diff)
			}
			if failed := strings.HasPrefix(got, "error"); failed == (call.Actions.StateDelta["last"] != nil) {
				t.Errorf("state = %v after %s", call.Actions.StateDelta, got)
			}
		})
	}
}

func TestExprArtifactNotSaved(t *testing.T) {
	it := mustBuildTool(t, "expr", "name: it\nvalue: '1'\nset: {last: '1'}\nsave_artifact: {a.txt: '\"a\"'}")
	call := newCall(nil, nil)
	call.Artifacts = memArtifacts{parts: map[string]*genai.Part{}, fail: errors.New("disk full")}
	if got, want := runAsText(t, it, call), "error: it: saving the artifact a.txt: disk full"; got != want || len(call.Actions.StateDelta) > 0 {
		t.Errorf("result = %s with state %v, want %s", got, call.Actions.StateDelta, want)
	}
}
