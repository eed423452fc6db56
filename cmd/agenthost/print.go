package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/wing/connection/authorize"
)

// An eventPrinter prints a run's events.
type eventPrinter interface {
	printEvent(ev *session.Event)
	// flushProblem prints the last event's error, which did not end the run.
	flushProblem()
	// endLine ends the unfinished line.
	endLine()
}

// printer prints events for people: text as it streams, calls and their responses on
// separate lines, and the author if it is not the root agent.
type printer struct {
	out  io.Writer
	root string
	// author is the unfinished line's author, or empty.
	author string
	// streamed reports that the current answer's partial events are already printed.
	streamed bool
	// problem is the last event's error. run reports an error that ends the run.
	problem string
}

func (p *printer) printEvent(ev *session.Event) {
	p.flushProblem()
	// Skip an error that repeats the event's text.
	if ev.ErrorCode != "" && (ev.ErrorMessage == "" || ev.ErrorMessage != ev.Text()) {
		p.endLine()
		p.problem = cmp.Or(ev.ErrorMessage, ev.ErrorCode)
	}
	if ev.Interrupted {
		p.printText(ev.Author, " (interrupted)")
		p.endLine()
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

// isSpeech reports whether a content in a live conversation is audio, whose words are in
// transcripts.
func isSpeech(c *genai.Content) bool {
	return len(c.Parts) == 1 && c.Parts[0].InlineData != nil && strings.HasPrefix(c.Parts[0].InlineData.MIMEType, "audio/")
}

func partsOf(c *genai.Content) []*genai.Part {
	if c == nil {
		return nil
	}
	return c.Parts
}

func (p *printer) printPart(ev *session.Event, part *genai.Part) {
	switch {
	case part.FunctionCall != nil && runtime.ReadApproval(part.FunctionCall) != nil:
		// answerPending prompts for it.
	case part.FunctionCall != nil && authorize.NewCall(part.FunctionCall) != nil:
		// authorizeCall prints it.
	case part.FunctionCall != nil && !ev.Partial:
		p.endLine()
		fmt.Fprintf(p.out, "  %s → %s(%s)\n", ev.Author, part.FunctionCall.Name, abbreviateJSON(part.FunctionCall.Args))
	case part.FunctionResponse != nil:
		p.endLine()
		fmt.Fprintf(p.out, "  %s ← %s\n", part.FunctionResponse.Name, abbreviateJSON(part.FunctionResponse.Response))
	case part.ExecutableCode != nil && !p.streamed:
		p.printText(ev.Author, part.ExecutableCode.Code)
	case part.CodeExecutionResult != nil:
		p.endLine()
		r := part.CodeExecutionResult
		fmt.Fprintf(p.out, "  code ← %s\n", abbreviateJSON(map[string]any{"outcome": r.Outcome, "output": r.Output}))
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

// flushProblem prints the last event's error, which did not end the run.
func (p *printer) flushProblem() {
	if p.problem != "" {
		p.endLine()
		fmt.Fprintf(p.out, "! %s\n", p.problem)
		p.problem = ""
	}
}

// endLine ends the unfinished line.
func (p *printer) endLine() {
	if p.author != "" {
		fmt.Fprintln(p.out)
		p.author = ""
	}
}

// abbreviateJSON formats v and truncates the text between characters.
func abbreviateJSON(v map[string]any) string {
	const limit = 200
	line := compactJSON(v)
	if len(line) > limit {
		return strings.ToValidUTF8(line[:limit], "") + "…"
	}
	return line
}

// compactJSON formats all of v, because a person who approves a call must see all of it.
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

// A costMeter adds up cost and tokens for model calls that have a price, including those by agents
// that are called as tools. It is safe for concurrent use.
type costMeter struct {
	mu            sync.Mutex
	usd           float64
	input, output int32
	// total has the sums of the conversation, for all model calls.
	total struct {
		usd           float64
		input, output int64
	}
	// began is when the turn began; zero between turns. last is the duration of the last one.
	began time.Time
	last  time.Duration
}

// addCall adds a model call; see [runtime.Options.Observe].
func (c *costMeter) addCall(m runtime.Measurement) {
	if m.Usage == nil {
		return
	}
	input := m.Usage.PromptTokenCount + m.Usage.ToolUsePromptTokenCount
	output := m.Usage.CandidatesTokenCount + m.Usage.ThoughtsTokenCount
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total.usd += m.Cost
	c.total.input += int64(input)
	c.total.output += int64(output)
	if m.Cost == 0 {
		return
	}
	c.usd += m.Cost
	c.input += input
	c.output += output
}

func (c *costMeter) beginTurn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.began = time.Now()
}

func (c *costMeter) endTurn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.began.IsZero() {
		c.last, c.began = time.Since(c.began), time.Time{}
	}
}

// formatDollars formats an amount above 0, in millionths of a dollar.
func formatDollars(usd float64) string {
	return strconv.FormatFloat(math.Max(1, math.Round(usd*1e6))/1e6, 'f', -1, 64)
}

// printCost prints the cost since the last call, if there is any.
func (c *costMeter) printCost(w io.Writer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.usd > 0 {
		fmt.Fprintf(w, "cost $%s for %d input tokens and %d output tokens\n", formatDollars(c.usd), c.input, c.output)
	}
	c.usd, c.input, c.output = 0, 0, 0
}
