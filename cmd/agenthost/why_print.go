package main

import (
	"fmt"
	"strings"

	"agenthost/internal/command"
	"agenthost/pkg/session"
	"agenthost/pkg/template"
)

// printText prints the explanation for people, with a heading for each kind of cause.
func (w *explanation) printText(env command.Env) {
	fmt.Fprintf(env.Out, "event %s of session %s: %s\n", w.Event, w.Session, w.Description)
	p := &whyPrinter{env}
	p.printList("produced by", w.describeOrigin())
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
}

type whyPrinter struct{ env command.Env }

// printList prints lines under a heading; without lines it prints nothing.
func (p *whyPrinter) printList(heading string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintln(p.env.Out, heading)
	for _, line := range lines {
		fmt.Fprintln(p.env.Out, strings.TrimRight("  "+line, " "))
	}
}

// describeOrigin returns lines for the author, its model and the tools.
func (w *explanation) describeOrigin() []string {
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
	}
	return lines
}

func formatKeys(keys []*whyKey) []string {
	var lines []string
	for _, k := range keys {
		line := k.Key
		if k.Value != nil {
			line += " = " + truncateLine(template.String(k.Value))
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
