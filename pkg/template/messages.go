package template

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/file"
)

// convertError gives an error of the expression language a place and ordinary
// words.
func convertError(src string, err error) *Error {
	e := &Error{Msg: err.Error()}
	var located *file.Error
	if errors.As(err, &located) {
		e.Offset = byteOffset(src, located.From)
		e.Msg = located.Message
		e.cause = located.Prev
	}
	var own *Error
	if errors.As(err, &own) {
		e.Msg, e.cause = own.Msg, own.cause
		e.Offset = max(e.Offset, own.Offset)
		return e
	}
	if name, ok := nameAfterDot(src, e.Offset); ok && e.Msg == "invalid operation: int(string)" {
		e.Msg = "a text or a list has no member " + name
	}
	// The compiler prints its stack behind what it did not expect.
	first, _, _ := strings.Cut(e.Msg, "\n")
	e.Msg = translateMessage(first)
	return e
}

// nameAfterDot is the name behind the dot at an offset.
func nameAfterDot(src string, offset int) (string, bool) {
	if offset == 0 || src[offset-1] != '.' {
		return "", false
	}
	name := src[offset:]
	if end := strings.IndexFunc(name, func(r rune) bool { return !isLetter(r) && !isLetterOrDigit(r) }); end >= 0 {
		name = name[:end]
	}
	return name, name != ""
}

// byteOffset turns a count of runes into a byte offset.
func byteOffset(src string, runes int) int {
	offset := 0
	for ; runes > 0 && offset < len(src); runes-- {
		_, size := utf8.DecodeRuneInString(src[offset:])
		offset += size
	}
	return offset
}

// A phrase says in ordinary words what the expression language says in Go's.
// A star stands for anything; $1 in the text is what the first star found, and
// #1 is that as the name of a type.
type translation struct{ pattern, text string }

func translations() []translation {
	return []translation{
		{"Operator (*) and coalesce expressions (??) cannot be mixed. Wrap either by parentheses.", "?? beside $1 needs parentheses, as in (a ?? b) $1 c"},
		{"unexpected token EOF", "the expression ends too early"},
		{`unexpected token Operator("=")`, "= does not compare; write =="},
		{`unexpected token *("*")`, "unexpected $2"},
		{"literal not terminated", "the text has no closing quote"},
		{"compilation failed: expression exceeds maximum allowed nodes", "the expression has more than 500 parts"},
		{"cannot redeclare *", "$1 has a meaning already; choose another name"},
		{"* is not callable", "only functions can be called"},
		{"type * has no field *", "#1 has no member $2"},
		{"type * has no method *", "#1 has no member $2"},
		{"cannot fetch * from *", "#2 has no member $1"},
		{"index out of range: * (array length is *)", "there is no element $1; the list has $2"},
		{"array elements can only be selected using an integer (got *)", "the elements of a list have numbers; this is #1"},
		{"cannot use * to get an element from *", "#2 has no member that is named by #1"},
		{"cannot use * as type * in map key", "the keys of a map are texts; this is #1"},
		{"cannot use * as type * in array", "the list never holds #1"},
		{"cannot use nil as argument (type *) to call *", "$2 takes #1, not nothing (nil)"},
		{"cannot use * as argument (type *) to call *", "$3 takes #2, not #1"},
		{"not enough arguments to call *", "$1 needs more arguments"},
		{"too many arguments to call *", "$1 takes fewer arguments"},
		{"cannot slice *", "only lists and texts can be sliced"},
		{"builtin * takes only array (got *)", "$1 takes a list, not #2"},
		{"predicate should return boolean (got *)", "the condition must be true or false, but it is #1"},
		{"non-bool expression (type *) used as condition", "the condition must be true or false, but it is #1"},
		{"expected bool, but got *", "the expression must be true or false, but it is #1"},
		{"invalid argument for * (type *)", "$1 does not take #2"},
		{`operator "in" not defined on *`, "in needs a list or a map on its right, not #1"},
		{"interface conversion: any is *, not *", "expected #2, but got #1"},
		{"invalid operation: * (mismatched types * and *)", "$1 does not work on #2 and #3"},
		{"invalid operation: * (mismatched type *)", "$1 does not work on #2"},
		{"invalid operation: int(*)", "#1 is not a whole number"},
		{"invalid operation: float(*)", "#1 is not a number"},
		{"invalid operation: * * *", "$2 does not work on #1 and #3"},
		{"invalid operation: * *", "$1 does not work on #2"},
		{"cannot take * elements", "take wants a whole number"},
		{"memory budget exceeded", "the expression builds too many values"},
		{"runtime error: integer divide by zero", "division by zero"},
		{"runtime error: *", "a value has a type that does not fit here"},
		{"reflect*", "a value has a type that does not fit here"},
	}
}

func translateMessage(msg string) string {
	// One word for each type, so that blanks part words.
	msg = strings.NewReplacer("interface {}", "any", "<nil>", "nil").Replace(strings.TrimSpace(msg))
	for _, p := range translations() {
		if found, ok := matchWildcards(p.pattern, msg); ok {
			return p.fillPlaceholders(found)
		}
	}
	return msg
}

// matchWildcards returns what the stars of a pattern stand for in s.
func matchWildcards(pattern, s string) ([]string, bool) {
	head, rest, star := strings.Cut(pattern, "*")
	s, ok := strings.CutPrefix(s, head)
	if !ok || !star {
		return nil, ok && s == ""
	}
	next, _, _ := strings.Cut(rest, "*")
	end := len(s)
	if next != "" {
		end = strings.Index(s, next)
	}
	if end < 0 {
		return nil, false
	}
	found, ok := matchWildcards(rest, s[end:])
	return append([]string{s[:end]}, found...), ok
}

func (p translation) fillPlaceholders(found []string) string {
	text := p.text
	for i, s := range found {
		text = strings.ReplaceAll(text, fmt.Sprintf("$%d", i+1), s)
		text = strings.ReplaceAll(text, fmt.Sprintf("#%d", i+1), typeNoun(s))
	}
	return text
}

// valueNoun names a value's type in the words of authors.
func valueNoun(v any) string {
	if v == nil {
		return typeNoun("nil")
	}
	return typeNoun(fmt.Sprintf("%T", v))
}

// typeNoun is the word for a Go type; what is none stays as it is.
func typeNoun(name string) string {
	switch name {
	case "nil":
		return "nothing (nil)"
	case "string":
		return "a text"
	case "bool":
		return "true or false"
	case "time.Time":
		return "a time"
	case "time.Duration":
		return "a duration"
	case "any", "unknown":
		return "a value"
	}
	switch strings.TrimRight(name, "0123456789") {
	case "int", "uint", "float":
		return "a number"
	}
	switch {
	case strings.HasPrefix(name, "["):
		return "a list"
	case strings.HasPrefix(name, "map["), strings.HasPrefix(name, "Map{"):
		return "a map"
	case strings.HasPrefix(name, "func("):
		return "a function"
	}
	return name
}
