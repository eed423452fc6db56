package spec

import (
	"cmp"
	"strings"
)

// maxSuggestLength and mostNames bound what is compared letter by letter: a file may
// have thousands of names that are not known.
const (
	// maxSuggestLength and maxSuggestNames limit the cost of the comparison: a file may
	// have thousands of unknown names.
	maxSuggestLength = 64
	maxSuggestNames  = 500
)

// Suggest returns the name most similar to a mistyped one, for "did you mean …?", or ""
// if none is similar. It ignores case. Of equally similar names, it returns the one
// closest in length, then the first in alphabetical order. It returns "" for a name of
// more than 64 bytes, or if there are more than 500 names.
func Suggest(name string, names []string) string {
	if len(name) > maxSuggestLength || len(names) > maxSuggestNames {
		return ""
	}
	best, bound := "", max(len(name)/3, min(len(name)-1, 1))
	lower := strings.ToLower(name)
	for _, n := range names {
		if absInt(len(n)-len(name)) > bound {
			continue
		}
		other := strings.ToLower(n)
		if countMissingBytes(lower, other) > bound {
			continue
		}
		d := editDistance(lower, other)
		if d < bound || d == bound && (best == "" || isNearer(n, best, len(name))) {
			best, bound = n, d
		}
	}
	return best
}

// suggestUnambiguous is Suggest, but returns "" if another name is equally similar.
func suggestUnambiguous(name string, names []string) string {
	best := Suggest(name, names)
	if best == "" {
		return ""
	}
	bound := editDistance(strings.ToLower(name), strings.ToLower(best))
	for _, n := range names {
		if n != best && absInt(len(n)-len(name)) <= bound && editDistance(strings.ToLower(name), strings.ToLower(n)) <= bound {
			return ""
		}
	}
	return best
}

func isNearer(a, b string, length int) bool {
	return cmp.Or(cmp.Compare(absInt(len(a)-length), absInt(len(b)-length)), cmp.Compare(a, b)) < 0
}

// countMissingBytes counts the bytes of a word that another one does not have. It is a
// lower bound of their edit distance that is cheaper to compute.
func countMissingBytes(word, other string) int {
	var count [256]int8
	for i := range len(other) {
		count[other[i]] = min(count[other[i]], 100) + 1
	}
	n := 0
	for i := range len(word) {
		if count[word[i]]--; count[word[i]] < 0 {
			n++
			count[word[i]] = 0
		}
	}
	return n
}

// editDistance counts the bytes to insert, delete, replace or transpose to turn a into
// b. The words are close in length, and one of them has at most maxSuggestLength bytes.
func editDistance(a, b string) int {
	var rows [3][maxSuggestLength + maxSuggestLength/3 + 1]int
	before, last, row := rows[0][:len(b)+1], rows[1][:len(b)+1], rows[2][:len(b)+1]
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+substitutionCost(a[i-1], b[j-1]))
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

func substitutionCost(a, b byte) int {
	if a == b {
		return 0
	}
	return 1
}

func absInt(n int) int { return max(n, -n) }
