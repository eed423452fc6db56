package spec

import (
	"regexp"
	"strings"
)

// Messages of the parser for a key that is indented too deep: it continues the text of
// the line above, or follows a comment.
const (
	notAllowedColon = "mapping values are not allowed in this context"
	missingKey      = "did not find expected key"
)

// keyOfLine matches a line that starts with a key, optionally with a value. The "- " of
// list items counts as indentation.
var keyOfLine = regexp.MustCompile(`^((?: |- )*)([A-Za-z_][\w-]*):(?: +([^\s#].*))?$`)

// isDeeper reports whether the problem is a key that is indented deeper than the key of
// the line above, which already has a value.
func isDeeper(d Diagnostic, src *source) bool {
	line := keyOfLine.FindStringSubmatch(strings.TrimRight(src.lineText(d.Pos.Line), " \r"))
	above := keyOfLine.FindStringSubmatch(src.lineAbove(d.Pos.Line))
	if line == nil || above == nil || above[3] == "" {
		return false
	}
	start := len(line[1])
	return (d.Pos.Col == start+1 || d.Pos.Col == start+len(line[2])+1) && start > len(above[1])
}

// explainIndent explains a problem for which isDeeper is true.
func explainIndent(d Diagnostic, src *source) Diagnostic {
	line := keyOfLine.FindStringSubmatch(strings.TrimRight(src.lineText(d.Pos.Line), " \r"))
	above := keyOfLine.FindStringSubmatch(src.lineAbove(d.Pos.Line))
	d.Pos.Col = len(line[1]) + 1
	d.Message = "this line is indented deeper than the line above"
	return d.WithHint("start %s in column %d, below %s, or quote the text above if this line is part of it", line[2], len(above[1])+1, above[2])
}

// lineAbove returns the previous line that is neither empty nor a comment.
func (s *source) lineAbove(number int) string {
	for number--; number > 0; number-- {
		line := strings.TrimRight(s.lineText(number), " \r")
		if text := strings.TrimSpace(line); text != "" && text[0] != '#' {
			return line
		}
	}
	return ""
}
