package httptool

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/tooltest"
)

// A response that is neither JSON nor text becomes an artifact, and so does each response of a tool
// with the artifact setting.
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
			call, kept := tooltest.NewCall(args, nil), tooltest.MemArtifacts{Parts: map[string]*genai.Part{}}
			call.Name, call.Artifacts = "it", kept
			if diff := cmp.Diff(tt.want, tooltest.RunAsText(t, it, call)); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.saved, tooltest.SavedArtifacts(kept)); diff != "" {
				t.Errorf("artifacts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHTTPArtifactNotSaved(t *testing.T) {
	it := buildHTTP(t, serve(t, respondWith(200, "image/png", "\x89PNG")), "name: it\nurl: HOST")
	call := tooltest.NewCall(nil, nil)
	call.Name, call.Artifacts = "it", tooltest.MemArtifacts{Parts: map[string]*genai.Part{}, Fail: errors.New("disk full")}
	if got, want := tooltest.RunAsText(t, it, call), "error: http tool it: saving the artifact it-0f4636c7.png: disk full"; got != want {
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
		_, err := tooltest.BuildTool(t, Kinds(), "http", "name: it\ndescription: d\nurl: https://example.com\n"+tt.yaml)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error = %v, want %s", tt.yaml, err, tt.want)
		}
	}
}
