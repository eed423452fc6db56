package spec_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/pkg/spec"
)

// Formatting changes white space only. Each case is a document and its result, separated by ---.
func TestFormat(t *testing.T) {
	for _, tt := range []struct{ name, before, want string }{
		{"indentation", "a:\n    b: 1\n    c:\n         d: 2\n", "a:\n  b: 1\n  c:\n    d: 2\n"},
		{"lists below their key", "a:\n- b\n- c:\n  d: 1\ne: 2\n", "a:\n  - b\n  - c:\n    d: 1\ne: 2\n"},
		{"lists in lists", "a:\n-   - b\n    - c\n", "a:\n  - - b\n    - c\n"},
		{"spaces after a colon and a dash", "a:   1\nb:\n  -    c:  2\n       d: 3\n", "a: 1\nb:\n  - c: 2\n    d: 3\n"},
		{"brackets", "a: { b: 1,c: [ 2,3 ] }\nd: [ 'x,y',  \"z, {\" ]   # one\n", "a: {b: 1, c: [2, 3]}\nd: ['x,y', \"z, {\"]   # one\n"},
		{"comments", "# top\na:\n     # of b\n     b: 1   # one\n# of c\nc: 2\n", "# top\na:\n  # of b\n  b: 1   # one\n# of c\nc: 2\n"},
		{"blank lines", "\n\na: 1\n\n\n\nb: 2\n\n\n", "a: 1\n\nb: 2\n"},
		{"spaces at line ends", "a: 1  \nb:  \n  c: 2\t\n", "a: 1\nb:\n  c: 2\n"},
		{"blocks move as they are", "a:\n    b: |\n        one\n          two  \n\n\n        three\n    c: 1\n", "a:\n  b: |\n      one\n        two  \n\n\n      three\n  c: 1\n"},
		{"blocks that keep their end", "a: |+\n  one\n\n\nb: 1\n", "a: |+\n  one\n\n\nb: 1\n"},
		{"folded blocks in lists", "a:\n- >-\n   one\n   two\n", "a:\n  - >-\n     one\n     two\n"},
		{"strings over several lines", "a:\n    b: one\n      two\n    c: \"three\n\n      four\"\n    d: 1\n", "a:\n  b: one\n    two\n  c: \"three\n\n    four\"\n  d: 1\n"},
		{"brackets over several lines", "a:\n    b: {c: 1,\n        d: 2}\n    e: [\n      f,\n    ]\n", "a:\n  b: {c: 1,\n      d: 2}\n  e: [\n    f,\n  ]\n"},
		{"text that looks like a block", "a: x |\nb:  y >\n", "a: x |\nb: y >\n"},
		{"windows line breaks", "a:\r\n    b: 1\r\n", "a:\r\n  b: 1\r\n"},
		{"no line break at the end", "a:   1", "a: 1"},
		{"placeholders and references", "a: Help {user:name?} in ${env:TONE:-{x}}\nb: '{ c }'\n", "a: Help {user:name?} in ${env:TONE:-{x}}\nb: '{ c }'\n"},
		{"quoted keys", "\"a: b\":   1\n'c':\n   d: 1\n", "\"a: b\": 1\n'c':\n  d: 1\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := spec.Format([]byte(tt.before))
			if diff := cmp.Diff(tt.want, string(got)); diff != "" || err != nil {
				t.Fatalf("Format = %v (-want +got):\n%s", err, diff)
			}
			if again, err := spec.Format(got); string(again) != string(got) || err != nil {
				t.Errorf("formatted again: %q, %v", again, err)
			}
		})
	}
}

func TestFormatOfInvalidDocument(t *testing.T) {
	_, err := spec.Format([]byte("a: [1\n"))
	if err == nil || !strings.Contains(err.Error(), `expected "," or "]"`) {
		t.Errorf("error = %v, want the syntax error", err)
	}
}

// The documents of this repository keep their values, and are formatted completely at once.
func TestFormatRepositoryDocuments(t *testing.T) {
	formatted := 0
	err := filepath.WalkDir("../..", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if _, ds := spec.Parse(path, src); ds.HasErrors() {
			return nil
		}
		once, err := spec.Format(src)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return nil
		}
		if twice, err := spec.Format(once); string(twice) != string(once) || err != nil {
			t.Errorf("%s: formatted again: %v\n%s", path, err, cmp.Diff(string(once), string(twice)))
		}
		formatted++
		return nil
	})
	if err != nil || formatted < 100 {
		t.Errorf("formatted %d documents, %v", formatted, err)
	}
}

// Any document that parses keeps its values and its text but for white space, and a second run changes
// nothing.
func FuzzFormat(f *testing.F) {
	for _, seed := range []string{
		"a:\n    b: |\n        x\n- c\n", "a: {b: [1,2], c: 'd''e'}\n", "- - a\n  - b: 1\n    c: >-\n      x\n\n      y\n", "a: \"x\n\n  y\"\n# c\nb: 1 # d\n",
		"? a\n: b\n", "a: &x [1]\nb: *x\n", "--- a\n", "a: !!str 1\n", "a:\n- b\n-\n  c: 1\n", "a: |2\n   x\n  y\n", "\ta: 1\n", "a:\n  # x\n\n  b: 1\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, src string) {
		once, err := spec.Format([]byte(src))
		if err != nil {
			return
		}
		twice, err := spec.Format(once)
		if err != nil || string(twice) != string(once) {
			t.Errorf("%q became %q, and then %q, %v", src, once, twice, err)
		}
	})
}
