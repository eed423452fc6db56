package builtin

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/tooltest"
)

// An expression saves artifacts: strings by the name's extension, other values as JSON, and null
// not at all. If an expression fails, nothing is saved or written.
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
			it := tooltest.MustBuildTool(t, Kinds(), "expr", head+tt.yaml)
			call, kept := tooltest.NewCall(tt.args, nil), tooltest.MemArtifacts{Parts: map[string]*genai.Part{}}
			call.Artifacts = kept
			got := tooltest.RunAsText(t, it, call)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.saved, tooltest.SavedArtifacts(kept)); diff != "" {
				t.Errorf("artifacts (-want +got):\n%s", diff)
			}
			if failed := strings.HasPrefix(got, "error"); failed == (call.Actions.StateDelta["last"] != nil) {
				t.Errorf("state = %v after %s", call.Actions.StateDelta, got)
			}
		})
	}
}

func TestExprArtifactNotSaved(t *testing.T) {
	it := tooltest.MustBuildTool(t, Kinds(), "expr", "name: it\nvalue: '1'\nset: {last: '1'}\nsave_artifact: {a.txt: '\"a\"'}")
	call := tooltest.NewCall(nil, nil)
	call.Artifacts = tooltest.MemArtifacts{Parts: map[string]*genai.Part{}, Fail: errors.New("disk full")}
	if got, want := tooltest.RunAsText(t, it, call), "error: it: saving the artifact a.txt: disk full"; got != want || len(call.Actions.StateDelta) > 0 {
		t.Errorf("result = %s with state %v, want %s", got, call.Actions.StateDelta, want)
	}
}
