package loader

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestParseDotenv covers the .env notation. The results are those of python-dotenv 1.2.2, with
// which ADK reads the file.
func TestParseDotenv(t *testing.T) {
	for _, tt := range []struct {
		text string
		want map[string]string
		bad  []int
	}{
		{"A=plain", map[string]string{"A": "plain"}, nil},
		{"  export A = spaced ", map[string]string{"A": "spaced"}, nil},
		{"export\tA=1\nexported=2", map[string]string{"A": "1", "exported": "2"}, nil},
		{"A=a # comment\nB=a#b\nC= #c", map[string]string{"A": "a", "B": "a#b", "C": "#c"}, nil},
		{"# A=1\n\n  # B=2\nC=3", map[string]string{"C": "3"}, nil},
		{`A="in # quotes" # comment`, map[string]string{"A": "in # quotes"}, nil},
		{"A=\"two\nlines\"\nB='two\r\nlines'\r\nC=3", map[string]string{"A": "two\nlines", "B": "two\r\nlines", "C": "3"}, nil},
		{`A="a\nb\t\\n\"\'\$"`, map[string]string{"A": "a\nb\t\\n\"'\\$"}, nil},
		{`A='a\nb\\ \'c\''`, map[string]string{"A": `a\nb\ 'c'`}, nil},
		{`A=a\nb`, map[string]string{"A": `a\nb`}, nil},
		{`A="ends with \\"`, map[string]string{"A": `ends with \`}, nil},
		{"A=\nB=\"\"\nC=''", map[string]string{"A": "", "B": "", "C": ""}, nil},
		{"A", map[string]string{}, nil},
		{"A=1\nA", map[string]string{}, nil},
		{"'A B'=1\nA.b-c=2", map[string]string{"A B": "1", "A.b-c": "2"}, nil},
		{"A=1\r\nB=2\rC=3", map[string]string{"A": "1", "B": "2", "C": "3"}, nil},
		{"A=a=b\nB=it's", map[string]string{"A": "a=b", "B": "it's"}, nil},
		{"A=\"he\nB=2", map[string]string{"B": "2"}, []int{1}},
		{"\n\nA=\"x\" y\n=3\nC=4", map[string]string{"C": "4"}, []int{3, 4}},
		{"A='x\ny' z\nB=2\nC D=3", map[string]string{"B": "2"}, []int{1, 4}},
	} {
		bindings, bad := parseDotenv(tt.text)
		got := map[string]string{}
		for _, b := range bindings {
			if delete(got, b.name); b.hasValue {
				got[b.name] = b.value
			}
		}
		if diff := cmp.Diff(tt.want, got) + cmp.Diff(tt.bad, bad); diff != "" {
			t.Errorf("parseDotenv(%q) (-want +got):\n%s", tt.text, diff)
		}
	}
}

// The problems in a .env are bounded: the first lines are reported one by one, and the others as a
// number.
func TestDotenvProblems(t *testing.T) {
	for _, tt := range []struct {
		bad   int
		want  int
		extra string
	}{
		{maxDotenvProblems, maxDotenvProblems, ""},
		{maxDotenvProblems + 1, maxDotenvProblems + 1, "and 1 more problems after this line"},
		{100_000, maxDotenvProblems + 1, "and 99980 more problems after this line"},
	} {
		s := &source{}
		for line := range tt.bad {
			s.reportDotenv(line+1, "env", "this line is not NAME=value, and is ignored", "")
		}
		s.reportMoreDotenv()
		last := s.dotenvProblems[len(s.dotenvProblems)-1]
		if len(s.dotenvProblems) != tt.want || tt.extra != "" && (last.Message != tt.extra || last.Pos.Line != maxDotenvProblems) {
			t.Errorf("%d bad lines: %d problems, the last one is %s", tt.bad, len(s.dotenvProblems), last)
		}
	}
}

// FuzzParseDotenv expects each binding to have a name and a place in the file.
func FuzzParseDotenv(f *testing.F) {
	for _, seed := range []string{"A=1", "export 'B'=\"x\\\"\ny\" # c\r\nC", "D='", "=\n\rE=\u2028#\x85"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		bindings, bad := parseDotenv(text)
		lines := 1 + strings.Count(text, "\n") + strings.Count(text, "\r")
		for _, b := range bindings {
			if b.name == "" || b.line < 1 || b.line > lines {
				t.Errorf("parseDotenv(%q) has %+v", text, b)
			}
		}
		for _, line := range bad {
			if line < 1 || line > lines {
				t.Errorf("parseDotenv(%q) reports line %d of %d", text, line, lines)
			}
		}
	})
}
