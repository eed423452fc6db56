package eval

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// corpusFile returns the path to a file in the corpus.
func corpusFile(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("AGENTHOST_CORPUS")
	if dir == "" {
		dir = "../../../../shared/corpus"
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("SKIPPED: no corpus: set AGENTHOST_CORPUS (%v)", err)
	}
	return path
}

// TestCorpusFilesRoundTrip: every foreign file, in each form and spelling, is read and written back equal:
// only nulls and empty values are lost, and reading the written file returns the same value.
func TestCorpusFilesRoundTrip(t *testing.T) {
	dir := corpusFile(t, "evalsets")
	text, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	var index []struct{ File, Kind string }
	if err := json.Unmarshal(text, &index); err != nil {
		t.Fatal(err)
	}
	if len(index) < 50 {
		t.Fatalf("the corpus has %d files", len(index))
	}
	for _, f := range index {
		t.Run(f.File, func(t *testing.T) {
			src, err := os.ReadFile(filepath.Join(dir, f.File))
			if err != nil {
				t.Fatal(err)
			}
			switch f.Kind {
			case "config":
				checkRoundTrip(t, src, ReadConfig)
			case "result":
				checkRoundTrip(t, src, ReadResult)
			case "old list format":
				checkOldRoundTrip(t, src)
			default:
				checkRoundTrip(t, src, func(file string, src []byte) (*Set, error) { return ReadSet(file, src, nil) })
			}
		})
	}
}

// checkRoundTrip reads, writes and compares with the source, then reads again.
func checkRoundTrip[T any](t *testing.T, src []byte, read func(file string, src []byte) (*T, error)) []byte {
	t.Helper()
	v, err := read("file.json", src)
	if err != nil {
		t.Fatal(err)
	}
	written, err := EncodeFile(v)
	if err != nil {
		t.Fatal(err)
	}
	want, got := normalizeTree(decodeAny(t, src)), normalizeTree(decodeAny(t, written))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the written file differs (-source +written):\n%s", diff)
	}
	again, err := read("file.json", written)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(v, again); diff != "" {
		t.Errorf("the written file is read differently (-first +second):\n%s", diff)
	}
	wire, err := EncodeWire(v)
	if err != nil {
		t.Fatal(err)
	}
	fromWire, err := read("file.json", wire)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(v, fromWire); diff != "" {
		t.Errorf("the wire form is read differently (-first +second):\n%s", diff)
	}
	return written
}

// checkOldRoundTrip writes an old file in the new form, and converts that back.
func checkOldRoundTrip(t *testing.T, src []byte) {
	t.Helper()
	s, err := ReadSet("old.test.json", src, nil)
	if err != nil {
		t.Fatal(err)
	}
	written, err := EncodeFile(s)
	if err != nil {
		t.Fatal(err)
	}
	checkRoundTrip(t, written, func(file string, src []byte) (*Set, error) { return ReadSet(file, src, nil) })
	old := []any{}
	for _, inv := range s.Cases[0].Conversation {
		tools := []any{}
		for _, c := range inv.Intermediate.ToolUses {
			tools = append(tools, map[string]any{"tool_name": c.Name, "tool_input": c.Args})
		}
		old = append(old, map[string]any{"query": textOf(inv.UserContent), "reference": textOf(inv.FinalResponse), "expected_tool_use": tools})
	}
	want, got := dropEmpty(decodeAny(t, src)), dropEmpty(decodeAny(t, []byte(toJSON(t, old))))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the converted set differs (-source +converted):\n%s", diff)
	}
}

// normalizeTree removes the differences between forms: spelling, the strings and calls of
// trpc-agent-go, state names, nulls and empty values.
func normalizeTree(v any) any { return dropEmpty(convertTree(v)) }

func convertTree(v any) any {
	switch v := v.(type) {
	case []any:
		for i, item := range v {
			v[i] = convertTree(item)
		}
		return v
	case map[string]any:
		out := map[string]any{}
		for key, item := range v {
			name := key
			if !strings.Contains(key, "_") {
				name = snakeCase(key)
			}
			switch name {
			case "args", "arguments", "result", "response", "state", "criterion":
				out[name] = item
			case "eval_status", "final_eval_status":
				out[name] = item
				if i := slices.Index(statusNames(), strings.ToUpper(fmt.Sprint(item))); i >= 0 {
					out[name] = float64(i + 1)
				}
			default:
				out[name] = convertTree(item)
			}
		}
		if text, ok := out["content"].(string); ok && out["parts"] == nil && out["role"] != nil {
			delete(out, "content")
			out["parts"] = []any{map[string]any{"text": text}}
		}
		convertTools(out)
		return out
	}
	return v
}

func convertTools(turn map[string]any) {
	tools, ok := turn["tools"].([]any)
	if !ok || turn["user_content"] == nil {
		return
	}
	delete(turn, "tools")
	var uses, responses []any
	for _, tool := range tools {
		c := tool.(map[string]any)
		uses = append(uses, map[string]any{"id": c["id"], "name": c["name"], "args": c["arguments"]})
		if r := c["result"]; r != nil {
			if _, ok := r.(map[string]any); !ok {
				r = map[string]any{"result": r}
			}
			responses = append(responses, map[string]any{"id": c["id"], "name": c["name"], "response": r})
		}
	}
	turn["intermediate_data"] = map[string]any{"tool_uses": uses, "tool_responses": responses}
}

func dropEmpty(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, item := range v {
			if kept := dropEmpty(item); kept != nil {
				out[k] = kept
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	case []any:
		var out []any
		for _, item := range v {
			out = append(out, dropEmpty(item))
		}
		if len(out) == 0 {
			return nil
		}
		return out
	case string:
		if v == "" {
			return nil
		}
	case float64:
		if v == 0 {
			return nil
		}
	}
	return v
}
