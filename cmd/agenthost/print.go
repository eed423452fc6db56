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

func (p *printer) event(ev *session.Event) {
	p.complain()
	// A refusal that the event itself says is not told twice.
	if ev.ErrorCode != "" && (ev.ErrorMessage == "" || ev.ErrorMessage != ev.Text()) {
		p.end()
		p.problem = cmp.Or(ev.ErrorMessage, ev.ErrorCode)
	}
	if ev.Content == nil {
		return
	}
	for _, part := range ev.Content.Parts {
		p.part(ev, part)
	}
	if !ev.Partial {
		p.end()
		p.streamed = false
	}
}

func (p *printer) part(ev *session.Event, part *genai.Part) {
	switch {
	case part.FunctionCall != nil && part.FunctionCall.Name == runtime.RequestConfirmation:
		// The person at the terminal is asked in words.
	case part.FunctionCall != nil && !ev.Partial:
		p.end()
		fmt.Fprintf(p.out, "  %s → %s(%s)\n", ev.Author, part.FunctionCall.Name, oneLine(part.FunctionCall.Args))
	case part.FunctionResponse != nil:
		p.end()
		fmt.Fprintf(p.out, "  %s ← %s\n", part.FunctionResponse.Name, oneLine(part.FunctionResponse.Response))
	case part.Thought || part.Text == "":
	case ev.Partial || !p.streamed:
		p.text(ev.Author, part.Text)
		p.streamed = ev.Partial
	}
}

func (p *printer) text(author, text string) {
	if p.author != author {
		p.end()
		if author != p.root {
			fmt.Fprintf(p.out, "[%s] ", author)
		}
		p.author = author
	}
	fmt.Fprint(p.out, text)
}

// complain prints the problem of the last event, which did not end the run.
func (p *printer) complain() {
	if p.problem != "" {
		p.end()
		fmt.Fprintf(p.out, "! %s\n", p.problem)
		p.problem = ""
	}
}

// end closes the line that is open.
func (p *printer) end() {
	if p.author != "" {
		fmt.Fprintln(p.out)
		p.author = ""
	}
}

func oneLine(v map[string]any) string {
	const most = 200
	line := wholeLine(v)
	if len(line) > most {
		return line[:most] + "…"
	}
	return line
}

// wholeLine leaves nothing out: a person who approves sees all of it.
func wholeLine(v map[string]any) string {
	if v == nil {
		return "{}"
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
