// Package numbertest checks that an edge keeps all digits in numbers.
package numbertest

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Object is a JSON object with the numbers that a decoder into float64
// rounds, and with those that must stay what they are.
const Object = `{"decimal":0.123456789012345678901234567890,"five":5,"half":2.5,"huge":1e400,"least":-9223372036854775808,` +
	`"odd":9007199254740993,"tenth":0.1,"thirty":123456789012345678901234567890,"unsigned":18446744073709551615}`

// Check reports an error for each problem that [FindProblems] returns.
func Check(t testing.TB, what, text string, n int) {
	t.Helper()
	for _, problem := range FindProblems(text, n) {
		t.Errorf("%s: %s", what, problem)
	}
}

// FindProblems returns what is wrong unless a string, such as a request or a file, has each
// of [Object] at least n times with all its digits, and never with other digits. Quotes may
// be escaped, as in JSON within JSON.
func FindProblems(text string, n int) []string {
	var want map[string]json.RawMessage
	if err := json.Unmarshal([]byte(Object), &want); err != nil {
		return []string{err.Error()}
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(want)) {
		found := regexp.MustCompile(`\b`+name+`[\\"]*\s*:\s*([-+.0-9eE]+)`).FindAllStringSubmatch(text, -1)
		if len(found) < n {
			all = append(all, fmt.Sprintf("%d of %d numbers named %s: %s", len(found), n, name, strings.TrimSpace(text)))
		}
		for _, f := range found {
			if f[1] != string(want[name]) {
				all = append(all, fmt.Sprintf("%s is %s, want %s", name, f[1], want[name]))
			}
		}
	}
	return all
}
