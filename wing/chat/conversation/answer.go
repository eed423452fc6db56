package conversation

import (
	"cmp"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/terminal"
	"agenthost/pkg/session"
	"agenthost/wing/chat"
)

// An answerView prints events in a conversation's terminal: text as Markdown as it streams, calls
// and their responses in one line each.
type answerView struct {
	person *chat.Terminal
	styles terminal.Styles
	root   string
	// last receives the text of the answer.
	last *string
	// answer is the unfinished one of author; nil between answers.
	answer *chat.Answer
	author string
	text   strings.Builder
	// shownAuthor is the author whose name was printed last.
	shownAuthor string
	// lines reports that the last thing printed is a line, which no empty line follows.
	lines bool
}

// transferTool is the tool by which an agent hands over to another one.
const transferTool = "transfer_to_agent"

func (p *answerView) printText(author, text string) {
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

func (p *answerView) printPart(ev *session.Event, part *genai.Part) {
	switch {
	case part.ExecutableCode != nil:
		code := part.ExecutableCode
		p.printText(ev.Author, "\n```"+strings.ToLower(string(code.Language))+"\n"+code.Code+"\n```\n")
	case part.FunctionCall != nil:
		p.printCall(ev.Author, part.FunctionCall)
	case part.FunctionResponse != nil:
		p.printResponse(ev, part.FunctionResponse)
	case part.CodeExecutionResult != nil:
		p.printLine(terminal.Muted, "← code "+formatCodeResult(part.CodeExecutionResult))
	}
}

// printCall prints a call, unless it hands over to another agent, whose name follows.
func (p *answerView) printCall(author string, call *genai.FunctionCall) {
	if call.Name == transferTool {
		return
	}
	line := "→ " + call.Name
	if len(call.Args) > 0 {
		line += " " + terminal.AbbreviateJSON(call.Args)
	}
	p.printAuthor(author)
	p.printLine(terminal.Muted, line)
}

// printResponse prints a response, unless it only reports a handover, or that the call waits for what
// the conversation asks next.
func (p *answerView) printResponse(ev *session.Event, response *genai.FunctionResponse) {
	_, failed := response.Response["error"]
	_, approval := ev.Actions.RequestedToolConfirmations[response.ID]
	_, credential := ev.Actions.RequestedAuthConfigs[response.ID]
	if response.Name == transferTool && !failed || approval || credential {
		return
	}
	role := terminal.Muted
	if failed {
		role = terminal.Warning
	}
	p.printLine(role, "← "+response.Name+" "+terminal.AbbreviateJSON(response.Response))
}

func (p *answerView) printInterruption(string) { p.printLine(terminal.Warning, "interrupted") }

// printAuthor prints the author's name if it is another one and not the root agent.
func (p *answerView) printAuthor(author string) {
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
func (p *answerView) printLine(role terminal.Role, text string) {
	p.endLine()
	if !p.lines {
		p.person.PrintGap()
	}
	p.lines = true
	p.person.Print(p.styles.Format(role, terminal.Truncate("  "+terminal.CleanLine(text), p.person.Width()-1)))
}

func (p *answerView) printProblem(problem string) {
	p.person.PrintGap()
	p.person.Print(p.styles.Format(terminal.Bad, "! "+problem))
	p.lines = false
}

func (p *answerView) endLine() {
	if p.answer != nil {
		p.answer.Finish()
		*p.last = p.text.String()
		p.answer = nil
	}
}
