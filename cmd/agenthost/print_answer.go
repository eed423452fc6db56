package main

import (
	"cmp"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/terminal"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/wing/chat"
	"agenthost/wing/connection/authorize"
)

// newPrinter returns the printer for the conversation's events.
func (t *conversation) newPrinter() eventPrinter {
	root := t.host.App(t.key.App).Root().Name()
	if t.person != nil && !t.json {
		return &answerPrinter{person: t.person, styles: terminal.StylesOf(t.env.Out), root: root, last: &t.lastAnswer}
	}
	return &printer{out: t.env.Out, root: root}
}

// An answerPrinter prints events in a conversation's terminal: text as Markdown as it streams, calls
// and their responses in one line each.
type answerPrinter struct {
	person *chat.Terminal
	styles terminal.Styles
	root   string
	// last receives the text of the answer.
	last *string
	// answer is the unfinished one of author; nil between answers.
	answer *chat.Answer
	author string
	text   strings.Builder
	// streamed reports that the current answer's partial events are already printed.
	streamed bool
	// shownAuthor is the author whose name was printed last.
	shownAuthor string
	// lines reports that the last thing printed is a line, which no empty line follows.
	lines   bool
	problem string
}

func (p *answerPrinter) printEvent(ev *session.Event) {
	p.flushProblem()
	if ev.ErrorCode != "" && (ev.ErrorMessage == "" || ev.ErrorMessage != ev.Text()) {
		p.problem = cmp.Or(ev.ErrorMessage, ev.ErrorCode)
	}
	if ev.Interrupted {
		p.endLine()
		p.printLine(terminal.Warning, "interrupted")
		p.streamed = false
	}
	if t := ev.OutputTranscription; t != nil {
		p.printPart(ev, &genai.Part{Text: t.Text})
	} else if ev.IsPlainResult() {
		p.printPart(ev, &genai.Part{Text: ev.ResultText()})
	} else if ev.Content == nil || isSpeech(ev.Content) {
		return
	}
	for _, part := range partsOf(ev.Content) {
		p.printPart(ev, part)
	}
	if !ev.Partial {
		p.endLine()
		p.streamed = false
	}
}

func (p *answerPrinter) printPart(ev *session.Event, part *genai.Part) {
	switch {
	case part.FunctionCall != nil && (runtime.ReadApproval(part.FunctionCall) != nil || authorize.NewCall(part.FunctionCall) != nil):
		// answerPending prompts for it.
	case part.FunctionCall != nil && part.FunctionCall.Name == transferTool && !ev.Partial:
		// The name of the other agent follows.
	case part.FunctionResponse != nil && part.FunctionResponse.Name == transferTool && part.FunctionResponse.Response["error"] == nil:
	case part.FunctionCall != nil && !ev.Partial:
		p.printAuthor(ev.Author)
		p.printLine(terminal.Muted, "→ "+part.FunctionCall.Name+" "+formatArguments(part.FunctionCall.Args))
	case part.FunctionResponse != nil && isRequested(ev, part.FunctionResponse.ID):
		// It only reports that the call waits, for what the conversation asks next.
	case part.FunctionResponse != nil:
		role := terminal.Muted
		if _, failed := part.FunctionResponse.Response["error"]; failed {
			role = terminal.Warning
		}
		p.printLine(role, "← "+part.FunctionResponse.Name+" "+abbreviateJSON(part.FunctionResponse.Response))
	case part.ExecutableCode != nil && !p.streamed:
		p.printText(ev.Author, "\n```"+strings.ToLower(string(part.ExecutableCode.Language))+"\n"+part.ExecutableCode.Code+"\n```\n")
	case part.CodeExecutionResult != nil:
		r := part.CodeExecutionResult
		p.printLine(terminal.Muted, "← code "+abbreviateJSON(map[string]any{"outcome": r.Outcome, "output": r.Output}))
	case part.Thought || part.Text == "":
	case ev.Partial || !p.streamed:
		p.printText(ev.Author, part.Text)
		p.streamed = ev.Partial
	}
}

// transferTool is the tool by which an agent hands over to another one.
const transferTool = "transfer_to_agent"

// isRequested reports whether an event requests a person's approval or authorization for a call.
func isRequested(ev *session.Event, call string) bool {
	_, approval := ev.Actions.RequestedToolConfirmations[call]
	_, credential := ev.Actions.RequestedAuthConfigs[call]
	return approval || credential
}

// formatArguments formats a call's arguments, abbreviated.
func formatArguments(args map[string]any) string {
	if len(args) == 0 {
		return ""
	}
	return abbreviateJSON(args)
}

func (p *answerPrinter) printText(author, text string) {
	if p.answer != nil && p.author != author {
		p.endLine()
	}
	if p.answer == nil {
		p.printAuthor(author)
		p.answer, p.author, p.lines = p.person.NewAnswer(), author, false
		p.text.Reset()
	}
	p.text.WriteString(text)
	p.answer.Append(text)
}

// printAuthor prints the author's name if it is another one and not the root agent.
func (p *answerPrinter) printAuthor(author string) {
	if author == cmp.Or(p.shownAuthor, p.root) {
		return
	}
	p.endLine()
	p.shownAuthor = author
	p.person.PrintGap()
	p.person.Print(p.styles.Format(terminal.Title, terminal.CleanLine(author)))
	p.lines = true
}

// printLine prints one line, which is cut at the terminal's width.
func (p *answerPrinter) printLine(role terminal.Role, text string) {
	p.endLine()
	if !p.lines {
		p.person.PrintGap()
	}
	p.lines = true
	p.person.Print(p.styles.Format(role, terminal.Truncate("  "+terminal.CleanLine(text), p.person.Width()-1)))
}

// flushProblem implements eventPrinter.
func (p *answerPrinter) flushProblem() {
	if p.problem != "" {
		problem := p.problem
		p.problem = ""
		p.endLine()
		p.person.PrintGap()
		p.person.Print(p.styles.Format(terminal.Bad, "! "+problem))
		p.lines = false
	}
}

// endLine implements eventPrinter: it ends the answer.
func (p *answerPrinter) endLine() {
	if p.answer != nil {
		p.answer.Finish()
		*p.last = p.text.String()
		p.answer = nil
	}
}
