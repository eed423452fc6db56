// Package textdiff compares texts line by line.
package textdiff

import (
	"fmt"
	"strings"
)

// contextLines is how many unchanged lines surround a change.
const contextLines = 3

// maxDiffCells limits the common line table; larger changes are shown as a whole.
const maxDiffCells = 4_000_000

// FormatDiff returns the unified diff between two texts with the given names; empty if they are
// equal. With the names a/FILE and b/FILE, git apply and patch read it.
func FormatDiff(from, to string, before, after []byte) string {
	a, b := splitLines(string(before)), splitLines(string(after))
	edits := compareLines(a, b)
	var out strings.Builder
	for at := 0; at < len(edits); {
		if edits[at].kind == ' ' {
			at++
			continue
		}
		start := max(at-contextLines, 0)
		end := findHunkEnd(edits, at)
		if out.Len() == 0 {
			fmt.Fprintf(&out, "--- %s\n+++ %s\n", from, to)
		}
		writeHunk(&out, edits, start, end)
		at = end
	}
	return out.String()
}

// splitLines returns the lines with their line breaks.
func splitLines(text string) []string {
	lines := strings.SplitAfter(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// lineEdit is a line in a diff: unchanged, removed or added.
type lineEdit struct {
	kind byte
	line string
}

// compareLines returns both files' lines, with the longest common ones unchanged.
func compareLines(a, b []string) []lineEdit {
	prefix := 0
	for prefix < len(a) && prefix < len(b) && a[prefix] == b[prefix] {
		prefix++
	}
	suffix := 0
	for suffix < len(a)-prefix && suffix < len(b)-prefix && a[len(a)-1-suffix] == b[len(b)-1-suffix] {
		suffix++
	}
	var edits []lineEdit
	for _, line := range a[:prefix] {
		edits = append(edits, lineEdit{' ', line})
	}
	edits = appendMiddle(edits, a[prefix:len(a)-suffix], b[prefix:len(b)-suffix])
	for _, line := range a[len(a)-suffix:] {
		edits = append(edits, lineEdit{' ', line})
	}
	return edits
}

func appendMiddle(edits []lineEdit, a, b []string) []lineEdit {
	var common [][]int // common[i][j] counts the common lines in a[i:] and b[j:]
	if len(a)*len(b) <= maxDiffCells {
		common = countCommon(a, b)
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case common != nil && i < len(a) && j < len(b) && a[i] == b[j]:
			edits = append(edits, lineEdit{' ', a[i]})
			i, j = i+1, j+1
		case i < len(a) && (common == nil || j == len(b) || common[i+1][j] >= common[i][j+1]):
			edits = append(edits, lineEdit{'-', a[i]})
			i++
		default:
			edits = append(edits, lineEdit{'+', b[j]})
			j++
		}
	}
	return edits
}

func countCommon(a, b []string) [][]int {
	common := make([][]int, len(a)+1)
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	return common
}

// findHunkEnd returns where the hunk with the change at an index ends: changes with few unchanged
// lines between them are in one hunk.
func findHunkEnd(edits []lineEdit, at int) int {
	last := at
	for i := at; i < len(edits) && i-last <= 2*contextLines; i++ {
		if edits[i].kind != ' ' {
			last = i
		}
	}
	return min(last+1+contextLines, len(edits))
}

func writeHunk(out *strings.Builder, edits []lineEdit, start, end int) {
	before, after := countLines(edits[:start])
	removed, added := countLines(edits[start:end])
	fmt.Fprintf(out, "@@ -%s +%s @@\n", formatRange(before, removed), formatRange(after, added))
	for _, e := range edits[start:end] {
		out.WriteByte(e.kind)
		out.WriteString(e.line)
		if !strings.HasSuffix(e.line, "\n") {
			out.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

// countLines counts the lines in both files.
func countLines(edits []lineEdit) (before, after int) {
	for _, e := range edits {
		if e.kind != '+' {
			before++
		}
		if e.kind != '-' {
			after++
		}
	}
	return before, after
}

func formatRange(skipped, count int) string {
	if count > 0 {
		skipped++
	}
	if count == 1 {
		return fmt.Sprint(skipped)
	}
	return fmt.Sprintf("%d,%d", skipped, count)
}
