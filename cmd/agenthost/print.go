package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"

	"google.golang.org/genai"

	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// printer prints events for people: text as it comes, calls and their answers
// on lines of their own, and the author where it is not the root agent.
type printer struct {
	out  io.Writer
	root string
	// author is who wrote the line that is open; empty when none is.
	author string
	// streamed says that the open answer's pieces are printed already.
	streamed bool
	// problem is that of the last event. One that ends the run is told by run.
	problem string
}

func (p *printer) printEvent(ev *session.Event) {
	p.flushProblem()
	// A refusal that the event itself says is not told twice.
	if ev.ErrorCode != "" && (ev.ErrorMessage == "" || ev.ErrorMessage != ev.Text()) {
		p.endLine()
		p.problem = cmp.Or(ev.ErrorMessage, ev.ErrorCode)
	}
	if ev.Content == nil {
		return
	}
	for _, part := range ev.Content.Parts {
		p.printPart(ev, part)
	}
	if !ev.Partial {
		p.endLine()
		p.streamed = false
	}
}

func (p *printer) printPart(ev *session.Event, part *genai.Part) {
	switch {
	case part.FunctionCall != nil && part.FunctionCall.Name == runtime.RequestConfirmation:
		// The person at the terminal is asked in words.
	case part.FunctionCall != nil && !ev.Partial:
		p.endLine()
		fmt.Fprintf(p.out, "  %s → %s(%s)\n", ev.Author, part.FunctionCall.Name, abbreviateJSON(part.FunctionCall.Args))
	case part.FunctionResponse != nil:
		p.endLine()
		fmt.Fprintf(p.out, "  %s ← %s\n", part.FunctionResponse.Name, abbreviateJSON(part.FunctionResponse.Response))
	case part.Thought || part.Text == "":
	case ev.Partial || !p.streamed:
		p.printText(ev.Author, part.Text)
		p.streamed = ev.Partial
	}
}

func (p *printer) printText(author, text string) {
	if p.author != author {
		p.endLine()
		if author != p.root {
			fmt.Fprintf(p.out, "[%s] ", author)
		}
		p.author = author
	}
	fmt.Fprint(p.out, text)
}

// flushProblem prints the problem of the last event, which did not end the run.
func (p *printer) flushProblem() {
	if p.problem != "" {
		p.endLine()
		fmt.Fprintf(p.out, "! %s\n", p.problem)
		p.problem = ""
	}
}

// endLine closes the line that is open.
func (p *printer) endLine() {
	if p.author != "" {
		fmt.Fprintln(p.out)
		p.author = ""
	}
}

func abbreviateJSON(v map[string]any) string {
	const most = 200
	line := compactJSON(v)
	if len(line) > most {
		return line[:most] + "…"
	}
	return line
}

// compactJSON leaves nothing out: a person who approves sees all of it.
func compactJSON(v map[string]any) string {
	if v == nil {
		return "{}"
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
