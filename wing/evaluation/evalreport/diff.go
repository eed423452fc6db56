package evalreport

import "strings"

// maxDiffWords limits the words of each side of a difference: the time is their product.
const maxDiffWords = 1000

// A diffPart is a sequence of words that both sides have, or only one.
type diffPart struct {
	// Kind is "same", "missing" (only expected) or "extra" (only actual).
	Kind, Text string
}

// diffWords compares two strings word by word by their longest common subsequence. Long
// strings are one part each.
func diffWords(expected, actual string) []diffPart {
	a, b := strings.Fields(expected), strings.Fields(actual)
	if len(a) > maxDiffWords || len(b) > maxDiffWords {
		return []diffPart{{"missing", expected}, {"extra", actual}}
	}
	// lengths[i][j] is the length of the longest common subsequence of a[i:] and b[j:].
	lengths := make([][]int, len(a)+1)
	for i := range lengths {
		lengths[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				lengths[i][j] = lengths[i+1][j+1] + 1
			} else {
				lengths[i][j] = max(lengths[i+1][j], lengths[i][j+1])
			}
		}
	}
	var parts []diffPart
	appendWord := func(kind, word string) {
		if n := len(parts); n > 0 && parts[n-1].Kind == kind {
			parts[n-1].Text += " " + word
			return
		}
		parts = append(parts, diffPart{kind, word})
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			appendWord("same", a[i])
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && lengths[i+1][j] >= lengths[i][j+1]:
			appendWord("missing", a[i])
			i++
		default:
			appendWord("extra", b[j])
			j++
		}
	}
	return parts
}
