package provider

import (
	"context"
	"encoding/json"
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
	"agenthost/pkg/session"
	"agenthost/pkg/template"
)

// A Recorder records model responses as a script ([ScriptEntry]) that reproduces them. It writes an
// entry when a model call ends. It records what a script supports: content, finish reason, tokens
// and errors, but not grounding, citations and probabilities. It does not record canceled calls. It
// is safe for concurrent use.
//
// One agent's entries for one message in a turn follow each other, so they need no number. Calls by
// parallel agents with the same name are recorded in the order in which they end.
type Recorder struct {
	mu  sync.Mutex
	out io.Writer
	err error
}

// NewRecorder returns a recorder that appends to a script. The caller closes the writer.
func NewRecorder(w io.Writer) *Recorder { return &Recorder{out: w} }

// Wrap returns a model that records llm's responses.
func (r *Recorder) Wrap(llm model.LLM) model.LLM { return &recordingModel{LLM: llm, recorder: r} }

// Err returns the first write error. It does not affect the models.
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

var (
	_ model.ContentCacher = (*recordingModel)(nil)
	_ model.CodeRunner    = (*recordingModel)(nil)
)

// CachesContents reports the model's capability; see [model.CanCache].
func (m *recordingModel) CachesContents() bool { return model.CanCache(m.LLM) }

// RunsCode reports the model's capability; see [model.RunsCode].
func (m *recordingModel) RunsCode() bool { return model.RunsCode(m.LLM) }

// Generate calls the model once; see [model.LLM]. It records a response before yielding
// it.
func (m *recordingModel) Generate(ctx context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		var chunks []*genai.Part
		for resp, err := range m.LLM.Generate(ctx, req) {
			switch {
			case err != nil:
				m.recordFailure(ctx, req, err)
			case resp.Partial && resp.Content != nil:
				chunks = append(chunks, resp.Content.Parts...)
			case !resp.Partial:
				m.recorder.writeEntry(answerEntry(req, resp, chunks))
			}
			if !yield(resp, err) {
				return
			}
		}
	}
}

// recordFailure records a service error, but not a cancellation.
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

// answerEntry writes a complete response, in the short form if possible.
func answerEntry(req *model.Request, resp *model.Response, chunks []*genai.Part) (string, error) {
	e := newEntryText(req)
	err := e.addAnswer(resp, chunks)
	return e.String(), err
}

func (e *entryText) addAnswer(resp *model.Response, chunks []*genai.Part) error {
	if short := shortAnswerOf(resp.Content); short != nil {
		if err := e.addShortAnswer(short, chunks); err != nil {
			return err
		}
	} else if err := e.addRawParts(resp.Content, chunks); err != nil {
		return err
	}
	reason := resp.ErrorCode
	if resp.FinishReason != "" && resp.FinishReason != genai.FinishReasonStop {
		reason = string(resp.FinishReason)
	}
	if reason != "" {
		e.addKey("finish", fmt.Sprintf("{reason: %s, message: %s}", YAMLText(reason), YAMLText(withoutPlaceholders(resp.ErrorMessage))))
	}
	if u := resp.UsageMetadata; u != nil {
		e.addKey("usage", fmt.Sprintf("{prompt: %d, candidates: %d}", u.PromptTokenCount, u.CandidatesTokenCount))
	}
	return nil
}

// entryText builds a script entry.
type entryText struct{ strings.Builder }

// maxConditionBytes limits how much of the user's message a condition has.
const maxConditionBytes = 200

// newEntryText starts an entry with its condition.
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

// shortAnswer is a response that needs no raw parts.
type shortAnswer struct {
	thought, text string
	calls         []*genai.FunctionCall
}

// shortAnswerOf returns nil unless the response has at most one thought, one text and calls, in
// this order, without placeholders.
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

// samePart reports whether two parts have equal encodings.
func samePart(a, b *genai.Part) bool {
	one, err1 := YAMLPart(a)
	two, err2 := YAMLPart(b)
	return err1 == nil && err2 == nil && one == two
}

func (e *entryText) addShortAnswer(s *shortAnswer, chunks []*genai.Part) error {
	if s.thought != "" {
		e.addKey("thought", yamlBlock(s.thought, "    "))
	}
	if s.text != "" {
		e.addKey("text", yamlBlock(s.text, "    "))
		n := 0
		for _, p := range chunks {
			if isPlain(p) && !p.Thought {
				n++
			}
		}
		if n > 0 {
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

// addRawParts writes raw parts; for a streamed response, its chunks.
func (e *entryText) addRawParts(c *genai.Content, chunks []*genai.Part) error {
	if len(chunks) == 0 && c != nil {
		chunks = c.Parts
	}
	parts := make([]string, len(chunks))
	for i, p := range chunks {
		text, err := YAMLPart(p)
		if err != nil {
			return err
		}
		parts[i] = text
	}
	e.addKey("parts", "["+strings.Join(parts, ", ")+"]")
	return nil
}

// withoutPlaceholders replaces braces by parentheses in text with placeholders, because
// a script would replace those.
func withoutPlaceholders(text string) string {
	if compiled, err := template.ParsePaths(text); err == nil {
		if plain, ok := compiled.Static(); ok && plain == text {
			return text
		}
	}
	return strings.NewReplacer("{", "(", "}", ")").Replace(text)
}

// AnswerEntry writes a response as a list entry for [DecodeAnswers]; its first line starts with a
// dash. A response with an error and without content is a failed call.
func AnswerEntry(resp *model.Response) (string, error) {
	e := &entryText{}
	if resp.ErrorCode != "" && resp.Content == nil {
		message := resp.ErrorMessage
		if _, reason, ok := strings.Cut(message, " failed: "); ok && strings.HasPrefix(message, "model ") {
			message = reason
		}
		e.addKey("error", fmt.Sprintf("{status: %s, message: %s}", YAMLText(resp.ErrorCode), YAMLText(withoutPlaceholders(message))))
	} else if err := e.addAnswer(withoutIDs(resp), nil); err != nil {
		return "", err
	}
	return "-" + strings.TrimPrefix(e.String(), " "), nil
}

// withoutIDs removes the call IDs that the runtime adds.
func withoutIDs(resp *model.Response) *model.Response {
	if resp.Content == nil {
		return resp
	}
	own := *resp
	own.Content = &genai.Content{Role: resp.Content.Role}
	for _, p := range resp.Content.Parts {
		p = copyPart(p)
		if p.FunctionCall != nil {
			p.FunctionCall.ID = ""
		}
		own.Content.Parts = append(own.Content.Parts, p)
	}
	return &own
}

// Recorded values are JSON, which is also YAML except for some characters that YAML
// forbids or treats as line breaks.

// YAMLText returns a string as YAML, quoted on one line.
func YAMLText(s string) string {
	text, err := jsonText(s)
	if err != nil {
		return `""`
	}
	return yamlSafe(text)
}

// yamlBlock returns text of several lines as a literal block, which people can read and edit. Its lines
// begin with indent. Text that a block cannot hold unchanged is quoted on one line.
func yamlBlock(s, indent string) string {
	body, ended := strings.CutSuffix(s, "\n")
	if !strings.Contains(body, "\n") || strings.TrimSpace(body) != body || strings.ContainsFunc(body, isUnsafeInBlock) {
		return YAMLText(s)
	}
	header := "|-" // without a line feed at the end
	if ended {
		header = "|"
	}
	var b strings.Builder
	b.WriteString(header)
	for line := range strings.SplitSeq(body, "\n") {
		b.WriteString("\n")
		if line != "" {
			b.WriteString(indent + line)
		}
	}
	return b.String()
}

// isUnsafeInBlock reports characters that YAML forbids, and those that it reads as line breaks.
func isUnsafeInBlock(r rune) bool {
	return r < ' ' && r != '\n' && r != '\t' || isUnsafeInYAML(r) || r == utf8.RuneError
}

// YAMLPart returns a part as YAML on one line, as in an event: whole floats keep their
// decimal point, so that they remain floats.
func YAMLPart(p *genai.Part) (string, error) {
	b, err := session.EncodePart(p)
	return yamlSafe(string(b)), err
}

// YAMLMapping returns a mapping as YAML on one line, with floats as in [YAMLPart].
func YAMLMapping(args map[string]any) (string, error) {
	b, err := session.EncodePart(&genai.Part{FunctionCall: &genai.FunctionCall{Args: args}})
	if err != nil {
		return "", err
	}
	var part struct {
		FunctionCall struct{ Args json.RawMessage }
	}
	if err := json.Unmarshal(b, &part); err != nil {
		return "", fmt.Errorf("writing arguments: %w", err)
	}
	if len(part.FunctionCall.Args) == 0 {
		return "{}", nil
	}
	return yamlSafe(string(part.FunctionCall.Args)), nil
}

func isUnsafeInYAML(r rune) bool {
	return 0x7f <= r && r <= 0x9f || r == 0x2028 || r == 0x2029 || r == 0xfeff || r == 0xfffe || r == 0xffff
}

// yamlSafe escapes such characters. JSON contains them only in strings.
func yamlSafe(text string) string {
	var b strings.Builder
	for _, r := range text {
		if isUnsafeInYAML(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// copyPart copies the fields that the runtime modifies: the call IDs.
func copyPart(p *genai.Part) *genai.Part {
	own := *p
	if p.FunctionCall != nil {
		call := *p.FunctionCall
		own.FunctionCall = &call
	}
	return &own
}
