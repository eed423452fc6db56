package spec

import (
	"fmt"
	"io"
	"strings"
)

// WriteGitHub writes the problems as workflow commands of GitHub Actions, which annotate
// the lines.
func (ds Diagnostics) WriteGitHub(w io.Writer) error {
	var b strings.Builder
	for _, d := range ds {
		fmt.Fprintf(&b, "::%s file=%s", d.Severity, escapeProperty(d.Pos.File))
		if d.Pos.Line > 0 {
			fmt.Fprintf(&b, ",line=%d,col=%d", d.Pos.Line, d.Pos.Col)
		}
		fmt.Fprintf(&b, ",title=%s::%s\n", escapeProperty(d.Rule), escapeCommand(d.fullText()))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func escapeCommand(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

func escapeProperty(s string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(escapeCommand(s))
}
