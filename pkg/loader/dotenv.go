package loader

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"agenthost/internal/limit"
	"agenthost/pkg/spec"
)

// A .env is read as python-dotenv reads it for ADK. A binding is NAME=value or NAME alone, which
// declares no value, with an optional export. A value is quoted, if need be over several lines, or
// the rest of its line up to white space and #. ${NAME} and ${NAME:-default} in any value are
// replaced: by an earlier line's value, else by the environment variable if the app may read it,
// else by the default or nothing. A name's last binding counts.

// dotenvBinding is a name with its value as written, without quotes and escapes.
type dotenvBinding struct {
	name, value string
	hasValue    bool
	line        int
}

// readDotenv reads the variables of the app's .env, and reports lines that are not bindings,
// without their text, which may be secret.
func (s *source) readDotenv() error {
	b, err := s.readWithinBudget(dotenvFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && len(b) > limit.AppFile.Bytes:
		err = errors.New("exceeds the limit of 4 MiB")
	case err == nil && !utf8.Valid(b):
		err = errors.New("not valid UTF-8")
	}
	if err != nil {
		return fmt.Errorf("reading %s: %s", s.displayPath(dotenvFile), formatOSError(err))
	}
	defer s.reportMoreDotenv()
	bindings, badLines := parseDotenv(string(bytes.TrimPrefix(b, []byte("\uFEFF"))))
	for _, line := range badLines {
		s.reportDotenv(line, "env", "this line is not NAME=value, and is ignored", "quote a value that has quotes or # in it, and close each quote")
	}
	return s.expandDotenv(bindings)
}

// maxDotenvProblems is how many problems in a .env are reported one by one.
const maxDotenvProblems = 20

func (s *source) reportDotenv(line int, rule, message, hint string) {
	if len(s.dotenvProblems) == maxDotenvProblems {
		s.moreDotenvProblems++
		return
	}
	s.dotenvProblems = append(s.dotenvProblems, spec.Diagnostic{
		Pos:      spec.Pos{File: s.displayPath(dotenvFile), Line: line, Col: 1},
		Severity: spec.Warning, Rule: rule, Message: message, Hint: hint,
	})
}

// reportMoreDotenv reports how many problems are not reported one by one.
func (s *source) reportMoreDotenv() {
	if s.moreDotenvProblems == 0 {
		return
	}
	last := s.dotenvProblems[len(s.dotenvProblems)-1]
	last.Rule, last.Hint = "env", "correct the problems above, and check again"
	last.Message = fmt.Sprintf("and %d more problems after this line", s.moreDotenvProblems)
	s.dotenvProblems = append(s.dotenvProblems, last)
}

// dotenvSyntax returns the .env patterns. They match at the start of a string, except for comments
// and references.
var dotenvSyntax = sync.OnceValue(func() (p struct {
	key, quotedKey, trailingComment, singleQuoted, doubleQuoted, comment, end, restOfLine, reference *regexp.Regexp
},
) {
	const (
		space  = `\s\x0b\x1c-\x1f\x85\p{Z}` // as Python's \s
		inLine = `[\t\x0b\f\x1c-\x1f\x85\p{Z}]*`
	)
	at := func(pattern string) *regexp.Regexp { return regexp.MustCompile(`^(?:` + pattern + `)`) }
	p.key = at(`([^=#` + space + `]+)` + inLine)
	p.quotedKey = at(`'([^']+)'` + inLine)
	p.trailingComment = regexp.MustCompile(`[` + space + `]#|$`)
	p.singleQuoted = at(`'((?:\\'|[^'])*)'`)
	p.doubleQuoted = at(`"((?:\\"|[^"])*)"`)
	p.comment = at(inLine + `#[^\r\n]*`)
	p.end = at(inLine + `(?:\r\n|\n|\r|$)`)
	p.restOfLine = at(`[^\r\n]*(?:\r\n|\n|\r|$)`)
	p.reference = regexp.MustCompile(`\$\{([^}:]*)(?::-([^}]*))?\}`)
	return p
})

// parseDotenv returns a .env's bindings, and its other lines.
func parseDotenv(text string) (bindings []dotenvBinding, badLines []int) {
	line := 1
	for {
		rest := strings.TrimLeftFunc(text, isPythonSpace)
		line += countLines(text[:len(text)-len(rest)])
		if rest == "" {
			return bindings, badLines
		}
		b, after, ok := parseDotenvBinding(rest)
		if b.line = line; !ok {
			badLines = append(badLines, line)
			after = after[len(dotenvSyntax().restOfLine.FindString(after)):]
		} else if b.name != "" {
			bindings = append(bindings, b)
		}
		line += countLines(rest[:len(rest)-len(after)])
		text = after
	}
}

// parseDotenvBinding reads one binding or comment, and returns what follows it. If it is
// neither, it returns what follows the part that it has read.
func parseDotenvBinding(text string) (b dotenvBinding, rest string, ok bool) {
	syntax := dotenvSyntax()
	if after, found := strings.CutPrefix(text, "export"); found && after != strings.TrimLeftFunc(after, isLineSpace) {
		text = strings.TrimLeftFunc(after, isLineSpace)
	}
	if !strings.HasPrefix(text, "#") {
		key := syntax.key
		if strings.HasPrefix(text, "'") {
			key = syntax.quotedKey
		}
		m := key.FindStringSubmatch(text)
		if m == nil {
			return b, text, false
		}
		b.name, text = m[1], text[len(m[0]):]
	}
	if after, found := strings.CutPrefix(text, "="); found {
		b.hasValue, text = true, strings.TrimLeftFunc(after, isLineSpace)
		if b.value, text, ok = parseDotenvValue(text); !ok {
			return b, text, false
		}
	}
	text = text[len(syntax.comment.FindString(text)):]
	end := syntax.end.FindStringIndex(text)
	if end == nil {
		return b, text, false
	}
	return b, text[end[1]:], true
}

func parseDotenvValue(text string) (value, rest string, ok bool) {
	syntax := dotenvSyntax()
	switch {
	case strings.HasPrefix(text, "'"):
		m := syntax.singleQuoted.FindStringSubmatch(text)
		if m == nil {
			return "", text, false
		}
		return strings.NewReplacer(`\\`, `\`, `\'`, `'`).Replace(m[1]), text[len(m[0]):], true
	case strings.HasPrefix(text, `"`):
		m := syntax.doubleQuoted.FindStringSubmatch(text)
		if m == nil {
			return "", text, false
		}
		escapes := strings.NewReplacer(`\\`, `\`, `\'`, `'`, `\"`, `"`, `\a`, "\a", `\b`, "\b", `\f`, "\f", `\n`, "\n", `\r`, "\r", `\t`, "\t", `\v`, "\v")
		return escapes.Replace(m[1]), text[len(m[0]):], true
	}
	line := text
	if end := strings.IndexAny(text, "\r\n"); end >= 0 {
		line = text[:end]
	}
	value = line[:syntax.trailingComment.FindStringIndex(line)[0]]
	return strings.TrimRightFunc(value, isLineSpace), text[len(line):], true
}

// expandDotenv replaces the references in the values. Environment variables are read under the
// rules for the app.
func (s *source) expandDotenv(bindings []dotenvBinding) error {
	s.dotenv = map[string]string{}
	declared := map[string]bool{}
	for _, b := range bindings {
		value, ok := s.expandDotenvValue(b, declared)
		if !ok {
			return fmt.Errorf("reading %s: the value of %s in line %d exceeds the limit of 4 MiB", s.displayPath(dotenvFile), b.name, b.line)
		}
		if err := s.budget.consume(len(value), 0); err != nil {
			return err
		}
		declared[b.name] = true
		if delete(s.dotenv, b.name); b.hasValue {
			s.dotenv[b.name] = value
		}
	}
	return nil
}

// expandDotenvValue replaces the references in a value, and returns false if that makes it
// too long.
func (s *source) expandDotenvValue(b dotenvBinding, declared map[string]bool) (value string, ok bool) {
	var expanded strings.Builder
	copied := 0
	for _, m := range dotenvSyntax().reference.FindAllStringSubmatchIndex(b.value, -1) {
		name, fallback, hasFallback := b.value[m[2]:m[3]], "", m[4] >= 0
		if hasFallback {
			fallback = b.value[m[4]:m[5]]
		}
		expanded.WriteString(b.value[copied:m[0]])
		copied = m[1]
		if declared[name] {
			expanded.WriteString(s.dotenv[name])
		} else {
			expanded.WriteString(s.expandHostVariable(b.line, name, fallback, hasFallback))
		}
		if expanded.Len() > limit.AppFile.Bytes {
			return "", false
		}
	}
	expanded.WriteString(b.value[copied:])
	return expanded.String(), expanded.Len() <= limit.AppFile.Bytes
}

// expandHostVariable returns an environment variable for a .env value, or the default.
func (s *source) expandHostVariable(line int, name, fallback string, hasFallback bool) string {
	value, isSet := s.env(name)
	err := s.policy.CheckVariable(s.name, name)
	if err == nil && isSet {
		err = s.policy.CheckValue(s.name, "the environment variable "+name, value)
	}
	switch {
	case err == nil && isSet:
		return value
	case err != nil && isSet:
		hint := "set " + name + " in an earlier line"
		if refused, ok := errors.AsType[*spec.LookupError](s.policyError(err, isSet, hint)); ok {
			s.reportDotenv(line, refused.Rule, refused.Message+"; ${"+name+"} is replaced by its default or nothing", refused.Hint)
		}
	case !hasFallback:
		s.reportDotenv(line, "env", "variable "+name+" is not set: ${"+name+"} is replaced by nothing",
			"set "+name+" in an earlier line, or write ${"+name+":-default}")
	}
	return fallback
}

// isPythonSpace reports whether Python's patterns take a character for white space.
func isPythonSpace(r rune) bool { return isLineSpace(r) || r == '\n' || r == '\r' }

// isLineSpace is isPythonSpace without the line ends in a .env.
func isLineSpace(r rune) bool {
	switch {
	case r == '\n', r == '\r':
		return false
	case r >= 0x1c && r <= 0x1f:
		return true
	}
	return unicode.IsSpace(r)
}

func countLines(text string) int {
	return strings.Count(text, "\n") + strings.Count(text, "\r") - strings.Count(text, "\r\n")
}
