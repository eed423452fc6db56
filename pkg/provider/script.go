package provider

import (
	"cmp"
	"container/list"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// A ScriptEntry is one reply in a script. It requires at least one of text, json, calls, thought,
// parts, finish and close, or only error, or only tool, or only transcript.
type ScriptEntry struct {
	When       spec.Expr         `yaml:"when" doc:"The entry's condition. Default: always."`
	Text       spec.Text         `yaml:"text" doc:"The reply's text, with {placeholders}."`
	JSON       *spec.Node        `yaml:"json" doc:"A value whose JSON is the reply text."`
	Calls      []ScriptCall      `yaml:"calls" doc:"The functions that the model calls."`
	Thought    spec.Text         `yaml:"thought" doc:"A thought before the reply, with {placeholders}."`
	Parts      []*genai.Part     `yaml:"parts" doc:"Raw parts at the end of the reply."`
	Error      *ScriptFailure    `yaml:"error" doc:"The error that the call fails with."`
	Finish     *ScriptFinish     `yaml:"finish" doc:"A finish reason other than STOP. Without content, and when streaming, it is an error on the event."`
	Tool       *ScriptTool       `yaml:"tool" doc:"Instead of a model's answer: a tool call's result. Used by run --replay."`
	Transcript *ScriptTranscript `yaml:"transcript" doc:"Instead of a model's answer: the user's audio transcript in a live conversation."`
	Close      *ScriptClose      `yaml:"close" doc:"Ends a live conversation's connection after the text, before the reply is complete. Other calls fail."`
	Usage      *ScriptUsage      `yaml:"usage" doc:"The tokens that the answer reports."`
	Times      int               `yaml:"times" doc:"How many times the entry answers in a session. Default: unlimited."`
	Chunks     int               `yaml:"chunks" doc:"The number of chunks that the text is streamed in. Default: one per word, at most 16."`
	Delay      spec.Duration     `yaml:"delay" doc:"The delay before the first chunk and between chunks."`
}

// A ScriptCall is one function call in a reply.
type ScriptCall struct {
	Name string         `yaml:"name" required:"true" doc:"The function's name."`
	Args map[string]any `yaml:"args" doc:"Its arguments."`
}

// A ScriptTranscript transcribes the user's audio in a live conversation, whatever the audio is. It
// is answered like typed words. Entries apply in their order, each once unless it has times.
type ScriptTranscript struct {
	Text  spec.Text     `yaml:"text" required:"true" doc:"The user's words."`
	After spec.Duration `yaml:"after" default:"1.5s" doc:"How much audio must arrive after the last words before these apply, unless speech ends earlier."`
}

// A ScriptClose describes how the service ends the connection (RFC 6455, 7.4).
type ScriptClose struct {
	Code   int    `yaml:"code" default:"1006" doc:"The close code, 1000 to 4999; 1006 cuts the connection."`
	Reason string `yaml:"reason" doc:"The reason."`
}

// A ScriptFailure is a failed model call.
type ScriptFailure struct {
	Code    int       `yaml:"code" default:"500" doc:"The HTTP status."`
	Status  string    `yaml:"status" doc:"The service's status. Default: Google's status for the code."`
	Message spec.Text `yaml:"message" doc:"The service's message, with {placeholders}."`
}

// A ScriptFinish is a service's finish reason.
type ScriptFinish struct {
	Reason  string    `yaml:"reason" required:"true" doc:"The finish reason, such as MAX_TOKENS or SAFETY."`
	Message spec.Text `yaml:"message" doc:"The service's message, with {placeholders}."`
}

// A ScriptUsage is a reply's token usage.
type ScriptUsage struct {
	Prompt     int32 `yaml:"prompt" doc:"Prompt tokens."`
	Candidates int32 `yaml:"candidates" doc:"Answer tokens."`
}

// A Script is a checked and compiled entry list. It is immutable and safe for concurrent use.
type Script struct {
	file    string
	entries []*scriptEntry
	// keys are the state keys that the conditions read.
	keys []string
}

type scriptEntry struct {
	ScriptEntry
	pos                    spec.Pos
	when                   *template.Expr // nil is always
	text, thought, message *template.Paths
	finish                 *template.Paths
}

// DecodeScript decodes a script: a list of [ScriptEntry] mappings. It reports every
// problem. A script with problems must not be used.
func DecodeScript(n *spec.Node) (*Script, spec.Diagnostics) {
	if n.Kind != spec.Sequence {
		return nil, spec.Diagnostics{n.Errorf("type", "a script must be a list of entries")}
	}
	d := &scriptDecoder{script: Script{file: n.Pos.File}}
	return d.decodeScript(n)
}

// DecodeAnswers decodes replies in order: a script whose entries without a condition answer once
// each.
func DecodeAnswers(n *spec.Node) (*Script, spec.Diagnostics) {
	if n.Kind != spec.Sequence {
		return nil, spec.Diagnostics{n.Errorf("type", "the answers of a model must be a list of entries")}
	}
	d := &scriptDecoder{script: Script{file: n.Pos.File}, once: true}
	return d.decodeScript(n)
}

type scriptDecoder struct {
	script      Script
	diagnostics spec.Diagnostics
	// once makes entries without a condition answer only once.
	once bool
}

func (d *scriptDecoder) decodeScript(n *spec.Node) (*Script, spec.Diagnostics) {
	var final *spec.Node
	for _, item := range n.Items {
		if final != nil && item.Get("tool") == nil && item.Get("transcript") == nil {
			d.addDiagnostics(item.Errorf("script", "unreachable entry: the one in line %d always matches", final.Pos.Line))
		}
		if e := d.decodeEntry(item); item.Get("when") == nil && e.Times == 0 && e.Tool == nil && e.Transcript == nil && final == nil {
			final = item
		}
	}
	d.diagnostics.Sort()
	return &d.script, d.diagnostics
}

func (d *scriptDecoder) addDiagnostics(ds ...spec.Diagnostic) {
	d.diagnostics = append(d.diagnostics, ds...)
}

func (d *scriptDecoder) decodeEntry(n *spec.Node) *scriptEntry {
	e := &scriptEntry{pos: n.Pos}
	d.addDiagnostics(spec.Decode(n, &e.ScriptEntry)...)
	d.checkAnswer(n)
	d.checkNumbers(n, e)
	if d.once && n.Get("when") == nil && e.Times == 0 {
		e.Times = 1
	}
	e.when = d.compileCondition(e.When)
	e.text, e.thought = d.compilePaths(e.Text), d.compilePaths(e.Thought)
	if e.Error != nil {
		e.message = d.compilePaths(e.Error.Message)
	}
	if e.Finish != nil {
		e.finish = d.compilePaths(e.Finish.Message)
	}
	d.script.entries = append(d.script.entries, e)
	return e
}

func (d *scriptDecoder) checkAnswer(n *spec.Node) {
	if n.Kind != spec.Mapping {
		return
	}
	var present []string
	for _, key := range []string{"text", "json", "calls", "thought", "parts", "finish", "close"} {
		if v := n.Get(key); v != nil && !v.IsNull() {
			present = append(present, key)
		}
	}
	if at := n.Get("transcript"); at != nil {
		d.checkTranscript(n, at, append(present, "error", "tool", "when"))
		return
	}
	failure, played := n.Get("error"), n.Get("tool")
	if played != nil {
		d.checkTool(n, played, append(present, "error"))
		return
	}
	switch {
	case failure == nil && len(present) == 0:
		d.addDiagnostics(n.Errorf("script", "an entry requires text, json, calls, thought, parts, finish, close or error"))
	case failure != nil && len(present) > 0:
		d.addDiagnostics(failure.Errorf("script", "error and %s are mutually exclusive", present[0]))
	case slices.Contains(present, "text") && slices.Contains(present, "json"):
		d.addDiagnostics(n.Get("json").Errorf("script", "text and json are mutually exclusive"))
	}
	if at := n.Get("close"); at != nil {
		for _, key := range []string{"json", "calls", "parts", "finish", "usage"} {
			if n.Get(key) != nil {
				d.addDiagnostics(at.Errorf("script", "close and %s are mutually exclusive: the reply is not completed", key))
			}
		}
	}
}

// checkTranscript rejects an entry that has both user words and a model reply.
func (d *scriptDecoder) checkTranscript(n, at *spec.Node, others []string) {
	for _, key := range append(others, "usage", "chunks", "delay") {
		if n.Get(key) != nil {
			d.addDiagnostics(at.Errorf("script", "transcript and %s are mutually exclusive", key))
			return
		}
	}
}

// checkTool rejects an entry that has both a tool response and a model's reply.
func (d *scriptDecoder) checkTool(n, at *spec.Node, others []string) {
	for _, key := range append(others, "usage", "chunks", "delay") {
		if n.Get(key) != nil {
			d.addDiagnostics(at.Errorf("script", "tool and %s are mutually exclusive", key))
			return
		}
	}
	if at.Get("error") != nil && at.Get("response") != nil {
		d.addDiagnostics(at.Get("error").Errorf("script", "error and response are mutually exclusive"))
	}
}

func (d *scriptDecoder) checkNumbers(n *spec.Node, e *scriptEntry) {
	d.checkMin(n.Get("times"), e.Times, 1)
	d.checkMin(n.Get("chunks"), e.Chunks, 1)
	if at := n.Get("error").Get("code"); at != nil && e.Error != nil && (e.Error.Code < 400 || e.Error.Code > 599) {
		d.addDiagnostics(at.Errorf("value", "%d is not an error status, must be 400 to 599", e.Error.Code))
	}
	if at := n.Get("close").Get("code"); at != nil && e.Close != nil && (e.Close.Code < 1000 || e.Close.Code > 4999) {
		d.addDiagnostics(at.Errorf("value", "%d is not a close code, must be 1000 to 4999", e.Close.Code))
	}
	if e.Usage != nil {
		d.checkMin(n.Get("usage").Get("prompt"), int(e.Usage.Prompt), 0)
		d.checkMin(n.Get("usage").Get("candidates"), int(e.Usage.Candidates), 0)
	}
}

func (d *scriptDecoder) checkMin(n *spec.Node, value, least int) {
	if n != nil && !n.IsNull() && value < least {
		d.addDiagnostics(n.Errorf("value", "must be at least %d", least))
	}
}

func (d *scriptDecoder) compileCondition(src spec.Expr) *template.Expr {
	if src.Value == "" {
		return nil
	}
	compiled, err := template.CompileBool(src.Value, scriptEnv())
	if err == nil {
		var keys []string
		if keys, err = stateKeys(src.Value); err == nil {
			d.script.keys = append(d.script.keys, keys...)
			return compiled
		}
	}
	d.addDiagnostics(tool.NewTemplateDiagnostic(src.Text, "expression", err))
	return nil
}

func (d *scriptDecoder) compilePaths(src spec.Text) *template.Paths {
	compiled, err := template.ParsePaths(src.Value)
	if err != nil {
		d.addDiagnostics(tool.NewTemplateDiagnostic(src, "template", err))
	}
	return compiled
}

// fileName returns the script's file, or "the script".
func (s *Script) fileName() string { return cmp.Or(spec.Pos{File: s.file}.Short().File, "the script") }

// maxCountedSessions limits the sessions with counters.
const maxCountedSessions = 1024

// An answerCounter counts each entry's answers by session. The zero value is ready to use. It is
// safe for concurrent use.
type answerCounter struct {
	mu       sync.Mutex
	sessions map[counterKey]*list.Element // *sessionTally
	recent   list.List                    // latest first
}

type counterKey struct{ app, user, session string }

type sessionCounts struct {
	key   counterKey
	count map[int]int
}

// countAnswer counts an entry's answer and reports whether it is within the limit. A limit of 0
// means no limit.
func (t *answerCounter) countAnswer(from model.Origin, entry, limit int) bool {
	if limit == 0 {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sessionCounts(counterKey{from.App, from.UserID, from.SessionID})
	if s.count[entry] >= limit {
		return false
	}
	s.count[entry]++
	return true
}

// hasLeft reports whether an entry can be used once more.
func (t *answerCounter) hasLeft(from model.Origin, entry, limit int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sessionCounts(counterKey{from.App, from.UserID, from.SessionID}).count[entry] < limit
}

func (t *answerCounter) sessionCounts(key counterKey) *sessionCounts {
	if at, ok := t.sessions[key]; ok {
		t.recent.MoveToFront(at)
		return at.Value.(*sessionCounts)
	}
	if t.sessions == nil {
		t.sessions = map[counterKey]*list.Element{}
	}
	if len(t.sessions) >= maxCountedSessions {
		oldest := t.recent.Remove(t.recent.Back()).(*sessionCounts)
		delete(t.sessions, oldest.key)
	}
	s := &sessionCounts{key: key, count: map[int]int{}}
	t.sessions[key] = t.recent.PushFront(s)
	return s
}

// fieldError returns an error for an entry's field that fails for a request.
func (e *scriptEntry) fieldError(field string, err error) error {
	return &model.Error{
		Code: 400, Status: "INVALID_ARGUMENT", Message: fmt.Sprintf("%s in the script entry at %s: %v", field, e.pos.Short(), err), Err: err,
	}
}

// A ScriptTool is a tool call's recorded result. Models ignore it; [ToolReplay] returns it instead
// of calling the tool.
type ScriptTool struct {
	Name     string         `yaml:"name" required:"true" doc:"The tool's name."`
	Args     map[string]any `yaml:"args" doc:"The arguments that the call must have. Default: any."`
	Response map[string]any `yaml:"response" doc:"The tool's response. Default: none."`
	Error    string         `yaml:"error" doc:"Instead of response: the tool's error."`
	State    map[string]any `yaml:"state" doc:"The state keys that the call set; null removed a key."`
}

// A ToolCall is a tool call and its result.
type ToolCall struct {
	Origin model.Origin
	Name   string
	Args   map[string]any
	// Response is nil if the tool returned nothing or failed.
	Response map[string]any
	// Error is the error message, or empty.
	Error string
	// State holds the state keys that the call set.
	State map[string]any
}

// AddToolCall records a tool call for replay.
func (r *Recorder) AddToolCall(c *ToolCall) {
	r.writeEntry(toolEntry(c))
}

func toolEntry(c *ToolCall) (string, error) {
	e := newEntryText(&model.Request{Origin: c.Origin})
	text := "{name: " + YAMLText(c.Name)
	fields := []struct {
		name  string
		value map[string]any
		given bool
	}{{"args", c.Args, true}, {"response", c.Response, c.Response != nil}, {"state", c.State, len(c.State) > 0}}
	for _, f := range fields {
		if !f.given {
			continue
		}
		value, err := YAMLMapping(f.value)
		if err != nil {
			return "", err
		}
		text += ", " + f.name + ": " + value
	}
	if c.Error != "" {
		text += ", error: " + YAMLText(c.Error)
	}
	e.addKey("tool", text+"}")
	return e.String(), nil
}

// A ToolReplay answers tool calls from a script. It counts how often it uses an entry, like
// [ScriptEntry], separately from models. It is safe for concurrent use.
type ToolReplay struct {
	script *Script
	used   answerCounter
}

// NewToolReplay returns a replay for a script
func NewToolReplay(s *Script) *ToolReplay { return &ToolReplay{script: s} }

// Answer returns a call's recorded result. The error names the closest entry and its position.
func (p *ToolReplay) Answer(ctx context.Context, from model.Origin, name string, args map[string]any) (*ScriptTool, error) {
	given, err := YAMLMapping(args)
	if err != nil {
		return nil, err
	}
	q := newScriptInput(&model.Request{Origin: from, Config: &genai.GenerateContentConfig{}}, p.script.keys)
	var near closestEntry
	for i, e := range p.script.entries {
		if e.Tool == nil || e.Tool.Name != name {
			continue
		}
		if e.when != nil {
			match, err := e.when.Bool(ctx, q.vars)
			if err != nil {
				return nil, e.fieldError("when", err)
			}
			if !match {
				near.consider(e, "is for another message, turn or agent", 1)
				continue
			}
		}
		if wanted, err := YAMLMapping(e.Tool.Args); err != nil || e.Tool.Args != nil && wanted != given {
			near.consider(e, "has the arguments "+wanted, 3)
			continue
		}
		if p.used.countAnswer(from, i, e.Times) {
			return e.Tool.clone(), nil
		}
		near.consider(e, "answered already", 2)
	}
	return nil, fmt.Errorf("%s has no answer for this call to %s by agent %s in turn %d, with the arguments %s: %s; record the conversation again, or add an entry",
		p.script.fileName(), name, strconv.Quote(from.Agent), from.Turn, given, near.describeEntry(name))
}

// clone returns a copy whose maps the caller may modify.
func (t *ScriptTool) clone() *ScriptTool {
	c := *t
	c.Response, c.State = maps.Clone(t.Response), maps.Clone(t.State)
	return &c
}

// closestEntry is the entry most similar to a call.
type closestEntry struct {
	entry *scriptEntry
	why   string
	rank  int
}

func (n *closestEntry) consider(e *scriptEntry, why string, rank int) {
	if rank > n.rank {
		*n = closestEntry{e, why, rank}
	}
}

func (n *closestEntry) describeEntry(name string) string {
	if n.entry == nil {
		return "there is no entry for the tool " + name
	}
	return fmt.Sprintf("the entry at %s %s", n.entry.pos.Short(), n.why)
}
