package textdiff

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFormatDiff: a diff has three lines around each change, and joins changes that are
// near.
func TestFormatDiff(t *testing.T) {
	lines := func(from, to int) string {
		var b strings.Builder
		for i := from; i <= to; i++ {
			fmt.Fprintf(&b, "%d\n", i)
		}
		return b.String()
	}
	for _, c := range []struct{ name, before, after, want string }{
		{"equal", "a\n", "a\n", ""},
		{"one line", "a\nb\nc\n", "a\nx\nc\n", "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n"},
		{"no line break at the end", "a", "b\n", "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n"},
		{"new file", "", "a\n", "--- a/f\n+++ b/f\n@@ -0,0 +1 @@\n+a\n"},
		{
			"two hunks", lines(1, 20), strings.Replace(strings.Replace(lines(1, 20), "2\n", "x\n", 1), "19\n", "", 1),
			"--- a/f\n+++ b/f\n@@ -1,5 +1,5 @@\n 1\n-2\n+x\n 3\n 4\n 5\n@@ -16,5 +16,4 @@\n 16\n 17\n 18\n-19\n 20\n",
		},
		{
			"one hunk", lines(1, 8), strings.Replace(strings.Replace(lines(1, 8), "2\n", "", 1), "7\n", "", 1),
			"--- a/f\n+++ b/f\n@@ -1,8 +1,6 @@\n 1\n-2\n 3\n 4\n 5\n 6\n-7\n 8\n",
		},
	} {
		if diff := cmp.Diff(c.want, FormatDiff("a/f", "b/f", []byte(c.before), []byte(c.after))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestDiffApplies: the lines in a diff's hunks turn the first file into the second one, for random
// files.
func TestDiffApplies(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 0))
	text := func() string {
		var b strings.Builder
		for range random.IntN(30) {
			b.WriteByte(byte('a' + random.IntN(4)))
			b.WriteByte('\n')
		}
		return b.String()
	}
	for range 500 {
		before, after := text(), text()
		var a, b strings.Builder
		for _, e := range compareLines(splitLines(before), splitLines(after)) {
			if e.kind != '+' {
				a.WriteString(e.line)
			}
			if e.kind != '-' {
				b.WriteString(e.line)
			}
		}
		if a.String() != before || b.String() != after {
			t.Fatalf("the diff of %q and %q has %q and %q", before, after, a.String(), b.String())
		}
	}
}
