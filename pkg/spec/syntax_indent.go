package spec

import (
	"regexp"
	"strings"
)

// What the parser says of a key that is indented too deep: it continues the text of
// the line above, or follows a comment.
const (
	notAllowedColon = "mapping values are not allowed in this context"
	missingKey      = "did not find expected key"
)

// keyOfLine finds the key that a line begins with, and whether a value follows it;
// the "- " of list items count as indentation.
var keyOfLine = regexp.MustCompile(`^((?: |- )*)([A-Za-z_][\w-]*):(?: +([^\s#].*))?$`)

// isDeeper says whether the problem is the key of a line that is indented deeper
// than the key of the line above, which has a value of its own.
func isDeeper(d Diagnostic, src *source) bool {
	line := keyOfLine.FindStringSubmatch(strings.TrimRight(src.lineText(d.Pos.Line), " \r"))
	above := keyOfLine.FindStringSubmatch(src.lineAbove(d.Pos.Line))
	if line == nil || above == nil || above[3] == "" {
		return false
	}
	start := len(line[1])
	return (d.Pos.Col == start+1 || d.Pos.Col == start+len(line[2])+1) && start > len(above[1])
}

// explainIndent reports the line of a key that isDeeper.
func explainIndent(d Diagnostic, src *source) Diagnostic {
	line := keyOfLine.FindStringSubmatch(strings.TrimRight(src.lineText(d.Pos.Line), " \r"))
	above := keyOfLine.FindStringSubmatch(src.lineAbove(d.Pos.Line))
	d.Pos.Col = len(line[1]) + 1
	d.Message = "this line is indented deeper than the line above"
	return d.WithHint("start %s in column %d, below %s; if it is part of the text above, put that text in quotes", line[2], len(above[1])+1, above[2])
}

// lineAbove is the line before one, without those that are empty or comments.
func (s *source) lineAbove(number int) string {
	for number--; number > 0; number-- {
		line := strings.TrimRight(s.lineText(number), " \r")
		if text := strings.TrimSpace(line); text != "" && text[0] != '#' {
			return line
		}
	}
	return ""
}
