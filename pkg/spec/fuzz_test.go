package spec_test

import (
	"path/filepath"
	"regexp"
	"testing"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/txtar"

	"agenthost/pkg/spec"
)

// addSeeds adds the broken documents in testdata and some valid ones.
func addSeeds(f *testing.F) {
	files, err := filepath.Glob("testdata/err/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(archive.Files[0].Data)
	}
	for _, s := range []string{
		"", "a: |\n  b {c}\n", "t: &a !!str \"x\\u00e9\"\nu: *a\n", "text: ${env:A:-b} ${env:\n", "<<: {a: 1}\n", agentYAML,
		"params: {a: 'string?', b: {type: object, properties: {}}, c: {enum: [1]}}", "size: 1MiB\nwait: 1d\n",
		"# c\r\n- >\r\n  a\r\n\r\n  b\n- |2\n    c\n", "{\"a\": [1.5, null]}", `{"a": "\ud83d\ude00\/", 'b\/': [&x "\\\\\/"]}`, "? a\n: - b\n", "a: 'b\n\n  c'\n",
		"generate_content_config: {topP: 1, http_options: {headers: {a: [b]}}}",
	} {
		f.Add([]byte(s))
	}
}

// checkPosInFile checks that a position is in the file, or right after a line's end.
func checkPosInFile(t *testing.T, src []byte, pos spec.Pos) {
	t.Helper()
	rows := regexp.MustCompile("\r\n|[\r\n\u0085\u2028\u2029]").Split(string(src), -1)
	if pos.Line < 1 || pos.Line > len(rows) {
		t.Fatalf("%v is not in a file of %d lines", pos, len(rows))
	}
	if width := utf8.RuneCountInString(rows[pos.Line-1]); pos.Col < 1 || pos.Col > width+1 {
		t.Fatalf("%v is not in a line of %d characters", pos, width)
	}
}

func checkPositions(t *testing.T, src []byte, ds spec.Diagnostics) {
	t.Helper()
	for _, d := range ds {
		checkPosInFile(t, src, d.Pos)
		if d.Message == "" || d.Rule == "" {
			t.Errorf("%+v has no message or no rule", d)
		}
	}
	formatText(t, ds)
}

func FuzzParse(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, src []byte) {
		n, ds := spec.Parse("f.yaml", src)
		checkPositions(t, src, ds)
		checkPositions(t, src, spec.Interpolate(n, lookupTestEnv))
		n.Any()
	})
}

func FuzzDecode(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, src []byte) {
		n, _ := spec.Parse("f.yaml", src)
		spec.Interpolate(n, lookupTestEnv)
		var a agentConfig
		checkPositions(t, src, spec.Decode(n, &a))
		checkTextPositions(t, src, a.Text)
		var e allTypes
		checkPositions(t, src, spec.Decode(n, &e))
		checkTextPositions(t, src, e.Prompt)
		checkTextPositions(t, src, e.When.Text)
		var m map[string]spec.Text
		checkPositions(t, src, spec.Decode(n, &m))
		for _, text := range m {
			checkTextPositions(t, src, text)
		}
		var p map[string]spec.ShortSchema
		checkPositions(t, src, spec.Decode(n, &p))
		var c modelConfig
		checkPositions(t, src, spec.Decode(n, &c))
	})
}

func checkTextPositions(t *testing.T, src []byte, text spec.Text) {
	t.Helper()
	if text.Pos.Line == 0 {
		return
	}
	for offset := range min(len(text.Value)+2, 200) {
		checkPosInFile(t, src, text.At(offset-1))
	}
}
