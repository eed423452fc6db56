package terminal

import (
	"strconv"
	"strings"
)

// A Role is the meaning that decides how text looks.
type Role uint8

// Roles.
const (
	Plain   Role = iota
	Title        // headings and column titles
	Muted        // what is less important
	Good         // success
	Warning      // a problem that stops nothing
	Bad          // a failure
	Code         // code, and what a person may type
	Link         // addresses
)

// A look is a set of attributes and a colour.
type look uint16

const (
	bold look = 1 << (iota + 8)
	faint
	italic
	underline
	strike

	colour look = 0xff // the code of the colour, 0 for none
)

var roleLooks = [...]look{Plain: 0, Title: bold, Muted: faint, Good: 32, Warning: 33, Bad: 31, Code: 36, Link: underline}

// resetLook ends all looks.
const resetLook = "\x1b[0m"

// Styles add roles to text. The zero value leaves text as it is, for output without colours.
type Styles struct{ enabled bool }

// NewStyles returns styles that are enabled or not.
func NewStyles(enabled bool) Styles { return Styles{enabled} }

// Enabled reports whether roles are visible.
func (s Styles) Enabled() bool { return s.enabled }

// Format cleans text, which may be from outside, and adds the role. [Output.Print] prints the
// result.
func (s Styles) Format(role Role, text string) string {
	return s.wrapLook(roleLooks[role], Clean(text))
}

// wrapLook adds a look to clean text without newlines at its ends.
func (s Styles) wrapLook(l look, text string) string {
	if !s.enabled || l == 0 || text == "" {
		return text
	}
	var codes []string
	for i, code := range []string{"1", "2", "3", "4", "9"} {
		if l&(bold<<i) != 0 {
			codes = append(codes, code)
		}
	}
	if c := l & colour; c != 0 {
		codes = append(codes, strconv.Itoa(int(c)))
	}
	return "\x1b[" + strings.Join(codes, ";") + "m" + text + resetLook
}

// isStyle reports whether a control sequence has only codes that this package writes.
func isStyle(sequence []byte) bool {
	codes, ok := strings.CutPrefix(string(sequence), "\x1b[")
	codes, final := strings.CutSuffix(codes, "m")
	if !ok || !final {
		return false
	}
	for code := range strings.SplitSeq(codes, ";") {
		switch code {
		case "0", "1", "2", "3", "4", "9", "31", "32", "33", "36":
		default:
			return false
		}
	}
	return true
}
