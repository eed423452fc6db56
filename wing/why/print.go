package why

import (
	"fmt"
	"io"
	"strings"

	"agenthost/internal/command"
	"agenthost/pkg/session"
	"agenthost/pkg/template"
)

// WriteText writes the explanation for people, with a heading for each kind of cause.
func (w *Explanation) WriteText(out io.Writer) error {
	p := &printer{out: out}
	p.printLine(fmt.Sprintf("event %s of session %s: %s", w.Event, w.Session, w.Description))
	p.printList("produced by", w.describeOrigin())
	if w.Rollout != "" {
		p.printList("rollout", []string{w.Rollout})
	}
	if w.Agent != nil {
		p.printList("definition", strings.Split(strings.TrimSuffix(w.Agent.YAML, "\n"), "\n"))
	}
	for _, t := range w.Instructions {
		p.printList(t.Field+", "+t.At, strings.Split(strings.TrimSuffix(t.Text, "\n"), "\n"))
	}
	p.printList("read", formatKeys(w.Read))
	p.printList("wrote", formatKeys(w.Wrote))
	var callbacks []string
	for _, c := range w.Callbacks {
		callbacks = append(callbacks, fmt.Sprintf("%s (%s), %s", c.Name, c.Detail, c.At))
	}
	p.printList("callbacks", callbacks)
	p.printList("unknown", w.Unknown)
	return p.err
}

// A printer keeps the first error.
type printer struct {
	out io.Writer
	err error
}

func (p *printer) printLine(line string) {
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.out, line)
	}
}

// printList prints lines under a heading; without lines it prints nothing.
func (p *printer) printList(heading string, lines []string) {
	if len(lines) == 0 {
		return
	}
	p.printLine(heading)
	for _, line := range lines {
		p.printLine(strings.TrimRight("  "+line, " "))
	}
}

// describeOrigin returns lines for the author, its model and the tools.
func (w *Explanation) describeOrigin() []string {
	if w.Author == session.UserAuthor {
		return []string{"the user, in invocation " + w.Invocation}
	}
	lines := []string{fmt.Sprintf("agent %s, in invocation %s", w.Author, w.Invocation)}
	if w.Agent == nil {
		return lines
	}
	lines[0] = fmt.Sprintf("agent %s (%s), %s of revision %s, in invocation %s", w.Author, w.Agent.Class, w.Agent.At, w.Revision, w.Invocation)
	if m := w.Agent.Model; m != nil && !w.fromTools {
		line := "model " + m.Name + ", " + m.At
		if m.Detail != "" {
			line += ", configured at " + m.Detail
		}
		if w.ModelVersion != "" {
			line += "; reported version " + w.ModelVersion
		}
		lines = append(lines, line)
	}
	for _, t := range w.Tools {
		line := "tool " + t.Name
		if t.At != "" {
			line += ", " + t.At
		}
		if t.CallEvent != "" {
			line += ", called in event " + t.CallEvent
		}
		lines = append(lines, line)
		if t.Edited != "" {
			lines = append(lines, command.TruncateLine(t.Edited))
		}
	}
	return lines
}

func formatKeys(keys []*KeyUse) []string {
	var lines []string
	for _, k := range keys {
		line := k.Key
		if k.Value != nil {
			line += " = " + command.TruncateLine(template.String(k.Value))
		}
		for _, at := range k.At {
			line += ", " + at
		}
		if k.By != "" {
			line += ": " + k.By
		}
		lines = append(lines, line)
	}
	return lines
}
