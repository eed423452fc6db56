package template

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/parser/lexer"

	"agenthost/internal/number"
)

// Literals are the numbers in a source that int64 and float64 cannot hold, such as
// 18446744073709551615. The parser rejects or rounds them, so each is replaced by a name with the
// same length, and the guard replaces the name by the number.
type literals map[string]json.Number

// likelyLiteral finds sources that may have such numbers.
var likelyLiteral = regexp.MustCompile(`[0-9._]{16}|[0-9.][eE]`)

// replaceLiterals returns the source with names for large numbers. Positions stay.
func replaceLiterals(src string) (string, literals) {
	if !likelyLiteral.MatchString(src) {
		return src, nil
	}
	tokens, err := lexer.Lex(file.NewSource(src))
	if err != nil {
		return src, nil
	}
	runes, found := []rune(src), literals{}
	for _, token := range tokens {
		n, ok := parseLiteral(token)
		if !ok {
			continue
		}
		name := fmt.Sprintf("_%0*d", token.To-token.From-1, len(found))
		if len(name) != token.To-token.From {
			continue
		}
		copy(runes[token.From:], []rune(name))
		found[name] = n
	}
	return string(runes), found
}

// parseLiteral returns a number that neither int64 nor float64 holds.
func parseLiteral(token lexer.Token) (json.Number, bool) {
	text := strings.ReplaceAll(token.Value, "_", "")
	if strings.HasPrefix(text, ".") {
		text = "0" + text
	}
	if token.Kind != lexer.Number || !json.Valid([]byte(text)) {
		return "", false
	}
	n, ok := number.Parse(text).(json.Number)
	return n, ok
}

// restoreLiterals writes the numbers in an error message again.
func (l literals) restoreLiterals(msg string) string {
	for name, n := range l {
		msg = strings.ReplaceAll(msg, name, string(n))
	}
	return msg
}

// parseSource parses a source that may have large numbers.
func parseSource(src string) (*parser.Tree, error) {
	src, _ = replaceLiterals(src)
	return parser.Parse(src)
}
