package template

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/file"
)

// An Error is a problem at a position in a template or an expression. The loader
// adds Offset to the position of the text and reports a diagnostic.
type Error struct {
	Offset int    // byte offset in the source
	Msg    string // what is wrong, in YAML authors' terms; often with a hint
	// Name is a misspelled name at Offset, and Near the name that Msg or Hint proposes; or both are
	// empty.
	Name, Near string
	// Hint is how to write what the source writes as another language does, or "".
	Hint string

	cause error
}

// Error returns Msg.
func (e *Error) Error() string { return e.Msg }

// Unwrap returns the context's error if it ended the evaluation, the error from a function that the
// expression called, or nil.
func (e *Error) Unwrap() error { return e.cause }

// A MissingError reports a required placeholder without a value. Its message is
// ADK's.
type MissingError struct {
	Ref Ref
}

// Error returns ADK's message: Context variable not found, or Artifact not found.
func (e *MissingError) Error() string {
	if e.Ref.Artifact {
		return fmt.Sprintf("Artifact %s not found.", e.Ref.Name)
	}
	return fmt.Sprintf("Context variable not found: `%s`.", e.Ref.Name)
}

// convertError converts an expression library error to an Error with a position and a message in
// YAML authors' terms.
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
		e.Msg = "a string or a list has no member " + name
	}
	// After an internal error the compiler appends a stack trace.
	first, _, _ := strings.Cut(e.Msg, "\n")
	e.Msg = translateMessage(first)
	return e
}

// nameAfterDot returns the name that starts at offset if a dot precedes it.
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

// byteOffset converts a rune count to a byte offset.
func byteOffset(src string, runes int) int {
	offset := 0
	for ; runes > 0 && offset < len(src); runes-- {
		_, size := utf8.DecodeRuneInString(src[offset:])
		offset += size
	}
	return offset
}

// A translation replaces an expression library message. A star in the pattern matches anything; $1
// in the text is the first match, #1 the noun for it as a type name.
type translation struct{ pattern, text string }

func translations() []translation {
	return []translation{
		{"Operator (*) and coalesce expressions (??) cannot be mixed. Wrap either by parentheses.", "?? mixed with $1 needs parentheses, as in (a ?? b) $1 c"},
		{"unexpected token EOF", "the expression ends too early"},
		{`unexpected token Operator("=")`, "= does not compare; write =="},
		{`unexpected token *("*")`, "unexpected $2"},
		{"literal not terminated", "the string has no closing quote"},
		{"compilation failed: expression exceeds maximum allowed nodes", "the expression exceeds the limit of 500 syntax nodes"},
		{"cannot redeclare *", "$1 is already defined; choose another name"},
		{"* is not callable", "only functions can be called"},
		{"type * has no field *", "#1 has no member $2"},
		{"type * has no method *", "#1 has no member $2"},
		{"cannot fetch * from *", "#2 has no member $1"},
		{"index out of range: * (array length is *)", "there is no element $1; the list has $2"},
		{"array elements can only be selected using an integer (got *)", "list indexes must be integers, got #1"},
		{"cannot use * to get an element from *", "#2 cannot be indexed by #1"},
		{"cannot use * as type * in map key", "map keys must be strings, got #1"},
		{"cannot use * as type * in array", "the list cannot contain #1"},
		{"cannot use nil as argument (type *) to call *", "$2 takes #1, not nil"},
		{"cannot use * as argument (type *) to call *", "$3 takes #2, not #1"},
		{"not enough arguments to call *", "$1 needs more arguments"},
		{"too many arguments to call *", "$1 takes fewer arguments"},
		{"cannot slice *", "only lists and strings can be sliced"},
		{"builtin * takes only array (got *)", "$1 takes a list, not #2"},
		{"predicate should return boolean (got *)", "the condition must be a boolean, got #1"},
		{"non-bool expression (type *) used as condition", "the condition must be a boolean, got #1"},
		{"expected bool, but got *", "the expression must be a boolean, got #1"},
		{"invalid argument for * (type *)", "$1 does not take #2"},
		{`operator "in" not defined on *`, "the right operand of in must be a list or a map, got #1"},
		{"interface conversion: any is *, not *", "expected #2, got #1"},
		{"invalid operation: * (mismatched types * and *)", "$1 does not work on #2 and #3"},
		{"invalid operation: * (mismatched type *)", "$1 does not work on #2"},
		{"invalid operation: int(*)", "#1 is not an integer"},
		{"invalid operation: float(*)", "#1 is not a number"},
		{"invalid operation: * * *", "$2 does not work on #1 and #3"},
		{"invalid operation: * *", "$1 does not work on #2"},
		{"cannot take * elements", "take requires an integer"},
		{"memory budget exceeded", "the expression exceeds the limit of 262144 list and map elements"},
		{"runtime error: integer divide by zero", "division by zero"},
		{"runtime error: *", "a value has an unsupported type"},
		{"reflect*", "a value has an unsupported type"},
	}
}

func translateMessage(msg string) string {
	// Type names must not contain spaces, which separate words.
	msg = strings.NewReplacer("interface {}", "any", "<nil>", "nil").Replace(strings.TrimSpace(msg))
	for _, p := range translations() {
		if found, ok := matchWildcards(p.pattern, msg); ok {
			return p.fillPlaceholders(found)
		}
	}
	return msg
}

// matchWildcards returns the parts in s that a pattern's stars match.
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

// valueNoun names a value's type in YAML authors' terms.
func valueNoun(v any) string {
	if v == nil {
		return typeNoun("nil")
	}
	return typeNoun(fmt.Sprintf("%T", v))
}

// typeNoun returns the noun for a Go type; any other name is returned unchanged.
func typeNoun(name string) string {
	switch name {
	case "nil":
		return "nil"
	case "string":
		return "a string"
	case "bool":
		return "a boolean"
	case "time.Time":
		return "a time"
	case "time.Duration":
		return "a duration"
	case "json.Number":
		return "a number"
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
