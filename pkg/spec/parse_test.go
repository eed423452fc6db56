package spec_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/pkg/spec"
)

// parseValid parses a document that must be valid.
func parseValid(t testing.TB, src string) *spec.Node {
	t.Helper()
	n, ds := spec.Parse("f.yaml", []byte(src))
	if len(ds) > 0 {
		t.Fatalf("Parse(%q) = %v", src, ds)
	}
	return n
}

func TestParseScalarTypes(t *testing.T) {
	tests := []struct {
		in   string
		want any
	}{
		{"text", "text"},
		{"", nil},
		{"~", nil},
		{"null", nil},
		{"Null", nil},
		{"true", true},
		{"FALSE", false},
		{"yes", "yes"},
		{"on", "on"},
		{"n", "n"},
		{"12", int64(12)},
		{"-12", int64(-12)},
		{"+12", int64(12)},
		{"1_000", int64(1000)},
		{"0x1F", int64(31)},
		{"0b101", int64(5)},
		{"0o17", int64(15)},
		{"08", "08"},
		{"-009", "-009"},
		{"9223372036854775807", int64(math.MaxInt64)},
		{"9223372036854775808", json.Number("9223372036854775808")},
		{"-99999999999999999999", json.Number("-99999999999999999999")},
		{"+99999999999999999999", json.Number("99999999999999999999")},
		{"0xFFFFFFFFFFFFFFFF", json.Number("18446744073709551615")},
		{"1.5", 1.5},
		{"3.10", 3.1},
		{".5", .5},
		{"1e3", 1000.0},
		{"1e999", json.Number("1e999")},
		{"-.5e-999", json.Number("-0.5e-999")},
		{"5.", 5.0},
		{"+1_000.1", 1000.1},
		{"0.123456789012345678901234567890", json.Number("0.123456789012345678901234567890")},
		{"9007199254740993.0", json.Number("9007199254740993.0")},
		{".inf", math.Inf(1)},
		{"-.Inf", math.Inf(-1)},
		{"12:30:45", "12:30:45"},
		{"1:30", "1:30"},
		{"2026-01-02", "2026-01-02"},
		{"2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"},
		{"!!timestamp 2026-01-02", "2026-01-02"},
		{"!!str 12", "12"},
		{"!!float 12", 12.0},
		{"!!int '12'", int64(12)},
		{`"12"`, "12"},
		{"'true'", "true"},
		{`"\u00e9\n"`, "é\n"},
		{"<<", "<<"},
		{"=", "="},
		{"a\n  b", "a b"},
		{"|\n  a\n  b", "a\nb\n"},
		{">-\n  a\n  b", "a b"},
	}
	for _, test := range tests {
		got := parseValid(t, "v: "+test.in+"\n").Get("v").Any()
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("Parse(%q).Any() (-want +got):\n%s", test.in, diff)
		}
	}
}

func TestParseWholeDocuments(t *testing.T) {
	tests := []struct {
		name, in string
		want     any
	}{
		{"empty", "", nil},
		{"comment", "# nothing\n", nil},
		{"marker", "---\n", nil},
		{"end marker", "a: 1\n...\n", map[string]any{"a": int64(1)}},
		{"byte order mark", "\uFEFFa: 1", map[string]any{"a": int64(1)}},
		{"carriage returns", "a: |\r\n  x\r\n  y\r\nb: 1\r\n", map[string]any{"a": "x\ny\n", "b": int64(1)}},
		{"json", "{\"a\": [1, 2.5, \"x\\ty\", null, true],\n\t\"b\": {}}", map[string]any{
			"a": []any{int64(1), 2.5, "x\ty", nil, true}, "b": map[string]any{},
		}},
		{"keys are strings", "1: a\ntrue: b\n2026-01-02: c\n1.50: d", map[string]any{"1": "a", "true": "b", "2026-01-02": "c", "1.50": "d"}},
		{"alias", "a: &x [1]\nb: *x", map[string]any{"a": []any{int64(1)}, "b": []any{int64(1)}}},
		{"anchored key", "&k a: 1\nb: *k", map[string]any{"a": int64(1), "b": "a"}},
		{"merge", "base: &b {x: 1, y: 2}\nv:\n  <<: *b\n  y: 3", map[string]any{
			"base": map[string]any{"x": int64(1), "y": int64(2)}, "v": map[string]any{"x": int64(1), "y": int64(3)},
		}},
		{"merge after the key", "v: {y: 3, <<: {x: 1, y: 2}}", map[string]any{"v": map[string]any{"x": int64(1), "y": int64(3)}}},
		{"merge a list, first wins", "v: {<<: [{x: 1}, {x: 2, y: 2}]}", map[string]any{"v": map[string]any{"x": int64(1), "y": int64(2)}}},
		{"merge of a merge", "a: &a {x: 1}\nb: &b {<<: *a, y: 2}\nc: {<<: *b}", map[string]any{
			"a": map[string]any{"x": int64(1)},
			"b": map[string]any{"x": int64(1), "y": int64(2)},
			"c": map[string]any{"x": int64(1), "y": int64(2)},
		}},
		{"quoted << is a key", `v: {"<<": {x: 1}}`, map[string]any{"v": map[string]any{"<<": map[string]any{"x": int64(1)}}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, parseValid(t, test.in).Any()); diff != "" {
				t.Errorf("Parse(%q).Any() (-want +got):\n%s", test.in, diff)
			}
		})
	}
}

func TestNodePositions(t *testing.T) {
	n := parseValid(t, `名前: x
list:
  - a
  - {k: &anchor v, é: "ü", w: *anchor}
block: |
  text
`)
	list := n.Get("list")
	flow := list.Items[1]
	tests := []struct {
		name string
		node *spec.Node
		want string
	}{
		{"document", n, "f.yaml:1:1"},
		{"after wide characters", n.Get("名前"), "f.yaml:1:5"},
		{"list", list, "f.yaml:3:3"},
		{"item", list.Items[0], "f.yaml:3:5"},
		{"flow mapping", flow, "f.yaml:4:5"},
		{"anchored", flow.Get("k"), "f.yaml:4:9"},
		{"quoted", flow.Get("é"), "f.yaml:4:23"},
		{"alias has the anchor's position", flow.Get("w"), "f.yaml:4:9"},
		{"block", n.Get("block"), "f.yaml:5:8"},
	}
	for _, test := range tests {
		if got := test.node.Pos.String(); got != test.want {
			t.Errorf("%s: Pos = %s, want %s", test.name, got, test.want)
		}
	}
	if diff := cmp.Diff([]string{"名前", "list", "block"}, n.Keys()); diff != "" {
		t.Errorf("Keys() (-want +got):\n%s", diff)
	}
}

func TestGet_NotAMapping(t *testing.T) {
	var none *spec.Node
	if got := none.Get("a").Get("b"); got != nil {
		t.Errorf("Get of a nil node = %v, want nil", got)
	}
	if got := parseValid(t, "[a]").Get("a"); got != nil {
		t.Errorf("Get of a list = %v, want nil", got)
	}
}

func TestParse_Limits(t *testing.T) {
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 9; i++ {
		alias := strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10)
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(alias, ", "))
	}
	deepest := strings.Repeat("[", 64) + strings.Repeat("]", 64)
	tests := []struct {
		name, in string
		want     []string
	}{
		{"64 levels", deepest, nil},
		{"65 levels", "[" + deepest + "]", []string{"f.yaml:1:65: nesting exceeds the limit of 64 levels [limit]"}},
		{"levels of a block", strings.Repeat("- ", 65) + "x", []string{"f.yaml:1:129: nesting exceeds the limit of 64 levels [limit]"}},
		{"too many levels for the parser", strings.Repeat("[", 20_000), []string{"f.yaml:1:10001: exceeded max depth of 10000 [yaml]"}},
		{"levels by aliases", nestedAliases(64), []string{"f.yaml:64:12: nesting exceeds the limit of 64 levels [limit]"}},
		{"alias bomb", bomb, []string{
			"f.yaml:4:45: alias expansion exceeds the limit of 10000 values or 100 times the file [limit]",
		}},
		{"long string, few aliases", "a: &a " + strings.Repeat("x", 100_000) + "\nb: [*a, *a, *a]", nil},
		{"long string, many aliases", "a: &a " + strings.Repeat("x", 100_000) + "\nb: [" + strings.Repeat("*a, ", 999) + "*a]", []string{
			"f.yaml:2:45: text expanded by aliases exceeds the limit of 1 MiB [limit]",
		}},
		{"1 MiB", "a: " + strings.Repeat("x", 1<<20-3), nil},
		{"more than 1 MiB", strings.Repeat("#", 1<<20+1), []string{"f.yaml: file size of 1048577 bytes exceeds the limit of 1 MiB [limit]"}},
		{"more than 50 000 items", strings.Repeat("- a\n", 25_001), []string{"f.yaml: file has about 50002 lines, keys and items, which exceeds the limit of 50000 [limit]"}},
		{"invalid UTF-8", "a: 1\nb: \xff", []string{"f.yaml:2:4: file is not valid UTF-8 [yaml]"}},
		{"UTF-16", "\xff\xfea\x00", []string{"f.yaml:1:1: file is not valid UTF-8 [yaml]"}},
		{"truncated UTF-8", "ä: \xe2\x82", []string{"f.yaml:1:4: file is not valid UTF-8 [yaml]"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			n, ds := spec.Parse("f.yaml", []byte(test.in))
			if n == nil {
				t.Fatal("Parse returned no node")
			}
			if diff := cmp.Diff(test.want, problemLines(ds)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func problemLines(ds spec.Diagnostics) []string {
	if len(ds) == 0 {
		return nil
	}
	return ds.Strings()
}

// nestedAliases returns a document in which each line lists the previous one several times.
func nestedAliases(n int) string {
	doc := "a0: &a0 []\n"
	for i := 1; i < n; i++ {
		doc += fmt.Sprintf("a%d: &a%d [*a%d]\n", i, i, i-1)
	}
	return doc
}

// Parse accepts all published ADK YAML files in the corpus.
func TestParseCorpusFiles(t *testing.T) {
	dir := os.Getenv("AGENTHOST_CORPUS")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "corpus")
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skip("SKIPPED: no corpus: set AGENTHOST_CORPUS")
	}
	count := 0
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		count++
		if _, ds := spec.Parse(path, src); ds.HasErrors() {
			t.Errorf("Parse(%s) = %v", path, ds)
		}
		return nil
	})
	if err != nil || count == 0 {
		t.Errorf("read %d files: %v", count, err)
	}
}

// TestParseJSONEscapes parses escapes that JSON has and the YAML parser lacks. Outside double
// quotes a backslash has no meaning.
func TestParseJSONEscapes(t *testing.T) {
	tests := []struct {
		in   string
		want any
	}{
		{`{"t": "Be nice \ud83d\ude00"}`, map[string]any{"t": "Be nice 😀"}},
		{`{"url": "https:\/\/a.example\/b", "\ud83d\ude00": "\uD834\uDD1E"}`, map[string]any{"url": "https://a.example/b", "😀": "𝄞"}},
		{`["\\ud83d\\ude00", "\\\/", "\"\/", "\u00e9"]`, []any{`\ud83d\ude00`, `\/`, `"/`, "é"}},
		{"t: \"a\\ud83d\\ude00\n  b\\\n  c\\/\"\nu: &x !!str \"\\/\"", map[string]any{"t": "a😀 bc/", "u": "/"}},
		{"a: \\ud83d\\ude00\nb: '\\ud83d\\ude00 \"\\/'\nc: |\n  \"\\/\"\nd: \"\\/\" # \"\\/\"", map[string]any{
			"a": `\ud83d\ude00`, "b": `\ud83d\ude00 "\/`, "c": "\"\\/\"\n", "d": "/",
		}},
		{"\uFEFFé: [\"\\ud83d\\ude00\"]\r\nb: \"\\/\"", map[string]any{"é": []any{"😀"}, "b": "/"}},
	}
	for _, test := range tests {
		if diff := cmp.Diff(test.want, parseValid(t, test.in).Any()); diff != "" {
			t.Errorf("Parse(%q) (-want +got):\n%s", test.in, diff)
		}
	}
}

func TestJSONEscapes_Problems(t *testing.T) {
	tests := []struct{ in, want string }{
		{`{"t": "\ud83d\ude00", "t": 1}`, `f.yaml:1:23: duplicate key "t", first used in line 1 [duplicate-key] (remove one of them)`},
		{`{"t": "\ud83d\ude00", "u": "\ud83d"}`, `f.yaml:1:31: invalid character in a \u escape [yaml] (write the character itself)`},
		{`{"t": "\ude00\ud83d"}`, `f.yaml:1:10: invalid character in a \u escape [yaml] (write the character itself)`},
		{`{"t": "\ud83d\ude00"`, `f.yaml:1:20: expected "," or "}" here [yaml] (close every [ and {, and quote text with , [ ] { } or ": ")`},
	}
	for _, test := range tests {
		_, ds := spec.Parse("f.yaml", []byte(test.in))
		if got := ds.Error(); got != test.want {
			t.Errorf("Parse(%q) = %s, want %s", test.in, got, test.want)
		}
	}
}
