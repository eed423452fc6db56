package spec

import (
	"cmp"
	"strings"
)

// Suggest returns the name that is nearest to a mistyped one, for "did you mean
// …?", or "" when none is near. Upper and lower case are the same; of equally
// near names it is the one nearest in length, then the first of the alphabet.
func Suggest(name string, names []string) string {
	best, bound := "", max(len(name)/3, min(len(name)-1, 1))
	lower := strings.ToLower(name)
	for _, n := range names {
		if abs(len(n)-len(name)) > bound {
			continue
		}
		other := strings.ToLower(n)
		if missing(lower, other) > bound {
			continue
		}
		d := distance(lower, other)
		if d < bound || d == bound && (best == "" || nearer(n, best, len(name))) {
			best, bound = n, d
		}
	}
	return best
}

// only is what Suggest says, or "" when another name is as near.
func only(name string, names []string) string {
	best := Suggest(name, names)
	for _, n := range names {
		if n != best && distance(strings.ToLower(name), strings.ToLower(n)) <= distance(strings.ToLower(name), strings.ToLower(best)) {
			return ""
		}
	}
	return best
}

func nearer(a, b string, length int) bool {
	return cmp.Or(cmp.Compare(abs(len(a)-length), abs(len(b)-length)), cmp.Compare(a, b)) < 0
}

// missing counts the letters of a word that another one does not have: it is
// never more than their distance, and found sooner.
func missing(word, other string) int {
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

// distance counts the letters to insert, drop, replace or swap with their
// neighbour to make one word of the other.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+differ(a[i-1], b[j-1]))
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

func differ(a, b byte) int {
	if a == b {
		return 0
	}
	return 1
}

func abs(n int) int { return max(n, -n) }
