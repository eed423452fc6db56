package conversation

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/terminal"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// An eventPrinter prints a run's events: text as it streams, calls and their responses. It decides
// what is printed, and its view how.
type eventPrinter struct {
	view view
	// findConsent returns nil for calls that wait for no connection.
	findConsent func(call *genai.FunctionCall) *Consent
	// streamed reports that the current answer's partial events are already printed.
	streamed bool
	// problem is the last event's error. The caller reports an error that ends the run.
	problem string
}

// A view prints the parts of events.
type view interface {
	printText(author, text string)
	// printPart prints a call, a response, code or its result.
	printPart(ev *session.Event, part *genai.Part)
	// printInterruption reports that the author's answer was interrupted.
	printInterruption(author string)
	printProblem(problem string)
	// endLine ends the unfinished line or answer.
	endLine()
}

// newPrinter returns the printer for the conversation's events.
func (t *Conversation) newPrinter() *eventPrinter {
	root := t.opts.Host.App(t.key.App).Root().Name()
	p := &eventPrinter{findConsent: t.findConsent}
	if t.opts.Terminal != nil && !t.opts.JSON {
		p.view = &answerView{person: t.opts.Terminal, styles: terminal.StylesOf(t.opts.Env.Out), root: root, last: &t.lastAnswer}
	} else {
		p.view = &plainView{out: t.opts.Env.Out, root: root}
	}
	return p
}

func (p *eventPrinter) printEvent(ev *session.Event) {
	p.flushProblem()
	// Skip an error that repeats the event's text.
	if ev.ErrorCode != "" && (ev.ErrorMessage == "" || ev.ErrorMessage != ev.Text()) {
		p.view.endLine()
		p.problem = cmp.Or(ev.ErrorMessage, ev.ErrorCode)
	}
	if ev.Interrupted {
		p.view.printInterruption(ev.Author)
		p.streamed = false
	}
	if t := ev.OutputTranscription; t != nil {
		p.printPart(ev, &genai.Part{Text: t.Text})
	} else if ev.IsPlainResult() {
		p.printPart(ev, &genai.Part{Text: ev.ResultText()})
	} else if ev.Content == nil || isSpeech(ev.Content) {
		return
	}
	if ev.Content != nil {
		for _, part := range ev.Content.Parts {
			p.printPart(ev, part)
		}
	}
	if !ev.Partial {
		p.view.endLine()
		p.streamed = false
	}
}

// isSpeech reports whether a content in a live conversation is audio, whose words are in
// transcripts.
func isSpeech(c *genai.Content) bool {
	return len(c.Parts) == 1 && c.Parts[0].InlineData != nil && strings.HasPrefix(c.Parts[0].InlineData.MIMEType, "audio/")
}

func (p *eventPrinter) printPart(ev *session.Event, part *genai.Part) {
	call := part.FunctionCall
	switch {
	case call != nil && (ev.Partial || runtime.ReadApproval(call) != nil || p.findConsent(call) != nil):
		// The conversation asks for what a whole call waits for.
	case part.ExecutableCode != nil && p.streamed:
	case call != nil, part.FunctionResponse != nil, part.ExecutableCode != nil, part.CodeExecutionResult != nil:
		p.view.printPart(ev, part)
	case part.Thought || part.Text == "":
	case ev.Partial || !p.streamed:
		p.view.printText(ev.Author, part.Text)
		p.streamed = ev.Partial
	}
}

// flushProblem prints the last event's error, which did not end the run.
func (p *eventPrinter) flushProblem() {
	if p.problem != "" {
		p.view.endLine()
		p.view.printProblem(p.problem)
		p.problem = ""
	}
}

// A plainView prints lines: calls and their responses on separate ones, and the author if it is not
// the root agent.
type plainView struct {
	out  io.Writer
	root string
	// author is the unfinished line's author, or empty.
	author string
}

func (p *plainView) printText(author, text string) {
	if p.author != author {
		p.endLine()
		if author != p.root {
			fmt.Fprintf(p.out, "[%s] ", author)
		}
		p.author = author
	}
	fmt.Fprint(p.out, text)
}

func (p *plainView) printPart(ev *session.Event, part *genai.Part) {
	if part.ExecutableCode != nil {
		p.printText(ev.Author, part.ExecutableCode.Code)
		return
	}
	p.endLine()
	switch {
	case part.FunctionCall != nil:
		fmt.Fprintf(p.out, "  %s → %s(%s)\n", ev.Author, part.FunctionCall.Name, terminal.AbbreviateJSON(part.FunctionCall.Args))
	case part.FunctionResponse != nil:
		fmt.Fprintf(p.out, "  %s ← %s\n", part.FunctionResponse.Name, terminal.AbbreviateJSON(part.FunctionResponse.Response))
	case part.CodeExecutionResult != nil:
		fmt.Fprintf(p.out, "  code ← %s\n", formatCodeResult(part.CodeExecutionResult))
	}
}

func formatCodeResult(r *genai.CodeExecutionResult) string {
	return terminal.AbbreviateJSON(map[string]any{"outcome": r.Outcome, "output": r.Output})
}

func (p *plainView) printInterruption(author string) {
	p.printText(author, " (interrupted)")
	p.endLine()
}

func (p *plainView) printProblem(problem string) { fmt.Fprintf(p.out, "! %s\n", problem) }

func (p *plainView) endLine() {
	if p.author != "" {
		fmt.Fprintln(p.out)
		p.author = ""
	}
}
