package template

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/expr-lang/expr/builtin"
)

// The operand after these is a string, or a value that is likely a string.
var (
	beforeText  = regexp.MustCompile(`\b(contains|startsWith|endsWith|matches)\s*$`)
	beforeValue = regexp.MustCompile(`[=!]=\s*$`)
)

// compileError is convertError for errors of the checker, with a hint for a
// misspelled name.
func compileError(src string, env Env, err error) *Error {
	e := convertError(src, err)
	if strings.TrimSpace(src) == "" {
		e.Offset, e.Msg = 0, "the expression is empty"
		return e
	}
	if name, ok := strings.CutPrefix(e.Msg, "unknown name "); ok {
		if strings.HasPrefix(src[e.Offset+len(name):], "(") {
			e.Msg = "unknown function " + name
		}
		near := suggestName(name, append(slices.Sorted(maps.Keys(env)), functionNames()...))
		if beforeText.MatchString(src[:e.Offset]) || near == "" && beforeValue.MatchString(src[:e.Offset]) {
			near = "; strings need quotes: \"" + name + "\""
		}
		e.Msg += near
	}
	if name, ok := strings.CutPrefix(e.Msg, "unknown field "); ok {
		owner := ownerPath(src[:e.Offset])
		e.Msg = "unknown member " + name + suggestName(name, envMembers(env, owner))
	}
	return e
}

// functionNames lists the functions that an expression may call.
func functionNames() []string {
	names := []string{"hash", "json", "redact"}
	for _, fn := range builtin.Builtins {
		if !slices.Contains(disabledBuiltins(), fn.Name) {
			names = append(names, fn.Name)
		}
	}
	return names
}

// ownerPath returns the path at the end of s, without its last dot.
func ownerPath(s string) string {
	s = strings.TrimRight(s, ".?")
	start := strings.LastIndexFunc(s, func(r rune) bool { return r != '.' && !isLetter(r) && !isLetterOrDigit(r) })
	return s[start+1:]
}

func envMembers(env Env, path string) []string {
	for _, name := range strings.Split(path, ".") {
		inner, ok := env[name].(Env)
		if !ok {
			return nil
		}
		env = inner
	}
	return slices.Sorted(maps.Keys(env))
}

// suggestName returns a "did you mean" question with the candidate nearest to
// name, or "".
func suggestName(name string, candidates []string) string {
	switch name {
	case "null", "None", "undefined":
		return "; did you mean nil?"
	case "True", "False":
		return "; did you mean " + strings.ToLower(name) + "?"
	}
	best, least := "", 1+max(1, len(name)/3)
	for _, c := range candidates {
		if d := editDistance(name, c); d < least && d < len(c) {
			best, least = c, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// editDistance counts the bytes to insert, delete, replace or swap with their
// neighbor.
func editDistance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := last[j]
			if a[i] != b[j] {
				cost++
			}
			row[j+1] = min(cost, row[j]+1, last[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
