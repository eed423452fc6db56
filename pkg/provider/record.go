package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/template"
)

// A Recorder writes what models answer as a script ([ScriptEntry]) that answers
// the same when the same is asked again: an entry for each call of a model,
// written when the call is over. It keeps what a script can say: content,
// finish reason, tokens and failures; not grounding, citations and
// probabilities. A call that is given up is not recorded. Many goroutines may
// use it.
//
// The entries of one agent for one message of one turn follow each other, so
// that they need no number: the calls of agents side by side are counted
// together, and who comes first is chance.
type Recorder struct {
	mu  sync.Mutex
	out io.Writer
	err error
}

// NewRecorder makes a recorder that appends to a script. The writer stays the
// caller's to close.
func NewRecorder(w io.Writer) *Recorder { return &Recorder{out: w} }

// Wrap returns a model that answers as llm does, and records it.
func (r *Recorder) Wrap(llm model.LLM) model.LLM { return &recordingModel{LLM: llm, recorder: r} }

// Err is the first failure to write. What models answer does not depend on it.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func (r *Recorder) writeEntry(entry string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil && err == nil {
		_, err = io.WriteString(r.out, entry)
	}
	if r.err == nil && err != nil {
		r.err = fmt.Errorf("recording model responses: %w", err)
	}
}

type recordingModel struct {
	model.LLM
	recorder *Recorder
}

// CachesContents says what the model itself does; see [model.CanCache].
func (m *recordingModel) CachesContents() bool { return model.CanCache(m.LLM) }

// RunsCode says what the model itself does; see [model.RunsCode].
func (m *recordingModel) RunsCode() bool { return model.RunsCode(m.LLM) }

// Generate asks once; see [model.LLM]. An answer is recorded before it is
// passed on.
func (m *recordingModel) Generate(ctx context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		var pieces []*genai.Part
		for resp, err := range m.LLM.Generate(ctx, req) {
			switch {
			case err != nil:
				m.recordFailure(ctx, req, err)
			case resp.Partial && resp.Content != nil:
				pieces = append(pieces, resp.Content.Parts...)
			case !resp.Partial:
				m.recorder.writeEntry(answerEntry(req, resp, pieces))
			}
			if !yield(resp, err) {
				return
			}
		}
	}
}

// recordFailure records what the service said. Whoever leaves is no failure of the
// model.
func (m *recordingModel) recordFailure(ctx context.Context, req *model.Request, err error) {
	failed, ok := errors.AsType[*model.Error](err)
	if !ok || ctx.Err() != nil {
		return
	}
	code := failed.Code
	if code < 400 || code > 599 {
		code = http.StatusServiceUnavailable
	}
	e := newEntryText(req)
	e.addKey("error", fmt.Sprintf("{code: %d, status: %s, message: %s}", code, YAMLText(failed.EventCode()), YAMLText(withoutPlaceholders(failed.Message))))
	m.recorder.writeEntry(e.String(), nil)
}

// answerEntry writes a whole answer, in short form where that says it all.
func answerEntry(req *model.Request, resp *model.Response, pieces []*genai.Part) (string, error) {
	e := newEntryText(req)
	err := e.addAnswer(resp, pieces)
	return e.String(), err
}

func (e *entryText) addAnswer(resp *model.Response, pieces []*genai.Part) error {
	if short := shortAnswerOf(resp.Content); short != nil {
		if err := e.addShortAnswer(short, pieces); err != nil {
			return err
		}
	} else if err := e.addRawParts(resp.Content, pieces); err != nil {
		return err
	}
	if reason := finishOf(resp); reason != "" {
		e.addKey("finish", fmt.Sprintf("{reason: %s, message: %s}", YAMLText(reason), YAMLText(withoutPlaceholders(resp.ErrorMessage))))
	}
	if u := resp.UsageMetadata; u != nil {
		e.addKey("usage", fmt.Sprintf("{prompt: %d, candidates: %d}", u.PromptTokenCount, u.CandidatesTokenCount))
	}
	return nil
}

// finishOf is how an answer ended, when not as usual.
func finishOf(resp *model.Response) string {
	if resp.FinishReason != "" && resp.FinishReason != genai.FinishReasonStop {
		return string(resp.FinishReason)
	}
	return resp.ErrorCode
}

// entryText is an entry of a script as it grows.
type entryText struct{ strings.Builder }

// maxConditionBytes bounds how much of the user's message a condition repeats.
const maxConditionBytes = 200

// newEntryText begins an entry with the condition under which it answers.
func newEntryText(req *model.Request) *entryText {
	asked, whole := userText(req), true
	for len(asked) > maxConditionBytes {
		_, size := utf8.DecodeLastRuneInString(asked)
		asked, whole = asked[:len(asked)-size], false
	}
	compare := "=="
	if !whole {
		compare = "startsWith"
	}
	when := fmt.Sprintf("agent == %s and turn == %d and user %s %s", strconv.Quote(req.Origin.Agent), req.Origin.Turn, compare, strconv.Quote(asked))
	e := &entryText{}
	e.WriteString("- when: '" + strings.ReplaceAll(when, "'", "''") + "'\n")
	e.addKey("times", "1")
	return e
}

func (e *entryText) addKey(name, value string) { e.WriteString("  " + name + ": " + value + "\n") }

// shortAnswer is an answer that needs no raw parts.
type shortAnswer struct {
	thought, text string
	calls         []*genai.FunctionCall
}

// shortAnswerOf returns nil for an answer that has more than one thought, one text
// and calls, in this order, or whose texts a script would fill.
func shortAnswerOf(c *genai.Content) *shortAnswer {
	s := &shortAnswer{}
	if c == nil {
		return nil
	}
	for _, p := range c.Parts {
		switch {
		case isPlain(p) && p.Thought && s.thought == "" && s.text == "" && s.calls == nil:
			s.thought = p.Text
		case isPlain(p) && !p.Thought && s.text == "" && s.calls == nil:
			s.text = p.Text
		case isPlainCall(p):
			s.calls = append(s.calls, p.FunctionCall)
		default:
			return nil
		}
	}
	if withoutPlaceholders(s.thought) != s.thought || withoutPlaceholders(s.text) != s.text || len(c.Parts) == 0 {
		return nil
	}
	return s
}

func isPlain(p *genai.Part) bool {
	bare := genai.Part{Text: p.Text, Thought: p.Thought}
	return p.Text != "" && samePart(p, &bare)
}

func isPlainCall(p *genai.Part) bool {
	c := p.FunctionCall
	if c == nil {
		return false
	}
	return samePart(p, &genai.Part{FunctionCall: &genai.FunctionCall{Name: c.Name, Args: c.Args}})
}

// samePart compares parts by what is written of them.
func samePart(a, b *genai.Part) bool {
	one, err1 := YAMLPart(a)
	two, err2 := YAMLPart(b)
	return err1 == nil && err2 == nil && one == two
}

func (e *entryText) addShortAnswer(s *shortAnswer, pieces []*genai.Part) error {
	if s.thought != "" {
		e.addKey("thought", YAMLText(s.thought))
	}
	if s.text != "" {
		e.addKey("text", YAMLText(s.text))
		if n := countTexts(pieces); n > 0 {
			e.addKey("chunks", strconv.Itoa(n))
		}
	}
	calls := make([]string, len(s.calls))
	for i, c := range s.calls {
		args, err := YAMLMapping(c.Args)
		if err != nil {
			return err
		}
		calls[i] = "{name: " + YAMLText(c.Name) + ", args: " + args + "}"
	}
	if len(calls) > 0 {
		e.addKey("calls", "["+strings.Join(calls, ", ")+"]")
	}
	return nil
}

func countTexts(pieces []*genai.Part) int {
	n := 0
	for _, p := range pieces {
		if isPlain(p) && !p.Thought {
			n++
		}
	}
	return n
}

// addRawParts writes the parts as they are; of a streamed answer, the pieces.
func (e *entryText) addRawParts(c *genai.Content, pieces []*genai.Part) error {
	if len(pieces) == 0 && c != nil {
		pieces = c.Parts
	}
	parts := make([]string, len(pieces))
	for i, p := range pieces {
		text, err := YAMLPart(p)
		if err != nil {
			return err
		}
		parts[i] = text
	}
	e.addKey("parts", "["+strings.Join(parts, ", ")+"]")
	return nil
}

// withoutPlaceholders is a text that a script prints as it is: where it holds
// what a script would fill, its braces become parentheses.
func withoutPlaceholders(text string) string {
	if compiled, err := template.ParsePaths(text); err == nil {
		if plain, ok := compiled.Static(); ok && plain == text {
			return text
		}
	}
	return strings.NewReplacer("{", "(", "}", ")").Replace(text)
}
