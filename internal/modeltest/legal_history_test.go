package modeltest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/legalrequest"
	"agenthost/internal/modeltest"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/storeurl"
	"agenthost/pkg/tool"
)

// qa/proof runs the random tests with more cases for each service, and another seed.
var (
	seed    = flag.Uint64("seed", 1, "seed of the random tests")
	fullRun = flag.Bool("full", false, "run the random tests with all their cases")
)

// No history that a session can hold makes a request that a service rejects. Random histories have
// what models, clients and imports may write: illegal tool names, IDs that appear twice, files that
// no service takes, calls without responses, responses without calls, odd roles, branches,
// summaries, rewinds. Each is sent as an agent sees it and as it is stored. The control sends the
// same requests without the service's rules: it must be rejected.
func TestRandomHistories(t *testing.T) {
	histories := 150
	if *fullRun {
		histories = 10_000
	}
	for _, s := range suiteSubjects() {
		if s.local {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			var refused, control int
			for batch := 0; batch*50 < histories && !t.Failed(); batch++ {
				t.Run(fmt.Sprint(batch), func(t *testing.T) { // ends its servers
					llm, _ := s.build(t)
					h := newHistoryTest(t, llm, rand.New(rand.NewPCG(*seed, uint64(batch))))
					for range 50 {
						bad, badControl := h.sendHistory(t)
						refused += bad
						control += badControl
					}
				})
			}
			if control == 0 {
				t.Error("no request of the control was rejected")
			}
			t.Logf("shown: %s: %d histories, %d rejected; control, requests without the rules: %d rejected", s.title, histories, refused, control)
		})
	}
}

// A historyTest runs turns in sessions with random histories.
type historyTest struct {
	historyMaker
	llm   model.LLM
	host  *runtime.Host
	store *store.Store
	tools []tool.Tool
	count int
}

func newHistoryTest(t *testing.T, llm model.LLM, random *rand.Rand) *historyTest {
	t.Helper()
	st, err := storeurl.Open(t.Context(), "memory:", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	h := &historyTest{historyMaker: historyMaker{random: random}, llm: llm, host: runtime.NewHost(st, nil), store: st}
	for _, name := range h.chooseNames(5) {
		h.tools = append(h.tools, &oddTool{&genai.FunctionDeclaration{Name: name, Description: "Does.", ParametersJsonSchema: h.makeSchema(0)}})
	}
	helper := runtime.NewLLM("helper", &runtime.LLMOptions{Description: "Helps.", Model: llm})
	app, err := runtime.NewApp("app", runtime.NewLLM("clerk", &runtime.LLMOptions{Model: llm, Tools: h.tools, SubAgents: []runtime.Agent{helper}}), nil)
	if err != nil {
		t.Fatal(err)
	}
	h.host.Swap(app)
	return h
}

// sendHistory stores a history and runs a turn after it, and sends its contents as they
// are. It returns how many requests the service rejected, with and without the rules.
func (h *historyTest) sendHistory(t *testing.T) (refused, control int) {
	t.Helper()
	h.count++
	key := session.Key{App: "app", User: "u", ID: fmt.Sprint(h.count)}
	sess, err := h.store.Sessions.Create(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	req := modeltest.ScriptInput("", false)
	req.Contents = nil
	for _, t := range h.tools {
		req.Config.Tools = append(req.Config.Tools, &genai.Tool{FunctionDeclarations: []*genai.FunctionDeclaration{t.Declaration()}})
	}
	for _, ev := range h.makeEvents() {
		if h.store.Sessions.Append(t.Context(), sess, ev) == nil { // else the store cannot hold it
			req.Contents = append(req.Contents, ev.Content)
		}
	}
	req.Contents = append(req.Contents, model.UserText("And now?"))
	run := &runtime.RunRequest{App: key.App, UserID: key.User, SessionID: key.ID, Message: model.UserText("And now?")}
	for _, err := range h.host.Run(t.Context(), run) {
		if err != nil {
			refused++
			t.Errorf("history %d: Run() = %v", h.count, err)
		}
	}
	if _, err := modeltest.Collect(h.llm.Generate(t.Context(), req)); err != nil {
		refused++
		t.Errorf("history %d: Generate() = %v", h.count, err)
	}
	if isRejected(h.llm, legalrequest.WithoutRules(t.Context()), req) {
		control++
	}
	return refused, control
}

// isRejected reports whether a service rejects a request, or the request panics.
func isRejected(llm model.LLM, ctx context.Context, req *model.Request) (rejected bool) {
	defer func() {
		if recover() != nil {
			rejected = true
		}
	}()
	_, err := modeltest.Collect(llm.Generate(ctx, req))
	failed, ok := errors.AsType[*model.Error](err)
	return ok && failed.Code == 400
}

// An oddTool is a tool whose declaration may have any name and schema.
type oddTool struct{ declared *genai.FunctionDeclaration }

// Declaration returns the declaration.
func (o *oddTool) Declaration() *genai.FunctionDeclaration { return o.declared }

// Run returns an empty result.
func (o *oddTool) Run(context.Context, *tool.Call) (*tool.Result, error) { return &tool.Result{}, nil }

// A historyMaker makes random events.
type historyMaker struct {
	random *rand.Rand
	clock  int64
}

var (
	oddNames = []string{
		"find", "find", "a.b", "a_b", "a:b", "", "find\" q=\"milk", strings.Repeat("x", 450), "9lives", "日本", "a b", "find_", "_", "structured_output",
		"transfer_to_agent", "set_model_response", "-", "a/b", "unnamed_tool", strings.Repeat("y.", 40), "\xff",
	}
	oddIDs = []string{
		"", "", "call_0", "call_0", "call_1", "terminal:0", "adk-1", strings.Repeat("i", 100), "日", "abcdefghi", "toolu_1 2", "call_\n", "toolu_fallback_1",
	}
	oddTypes = []string{
		"", "image/png", "image/jpeg", "image/heic", "image/svg+xml", "IMAGE/PNG", "video/mp4", "audio/wav", "audio/ogg", "application/pdf", "text/plain",
		"text/csv; charset=utf-8", "application/json", "application/octet-stream", "application/zip", "application/vnd.ms-excel", "x", "image/png;base64",
	}
	oddData = []string{"", " \n", "hi", modeltest.PngData, "\xff\xd8\xff\xe0", modeltest.PdfData, "RIFF\x00\x00\x00\x00WEBPVP", "\x00\x01"}
	oddURIs = []string{
		"", "https://example.com/a.png", "https://example.com/a", "http://example.com/a.pdf?x=1", "gs://b/a.mp4", "gs://b/x", "file-1", "file:///etc/x", "artifact:a",
		"https://example.com/" + strings.Repeat("long", 100) + ".pdf",
	}
	oddRoles   = []string{"user", "user", "model", "model", "model", "", "function", "system"}
	oddTexts   = []string{"", " ", "\n", "hi", "a long answer", "\xff", "\x00"}
	oddAuthors = []string{"user", "clerk", "clerk", "helper", "model", "stranger"}
)

func choose[T any](random *rand.Rand, list []T) T { return list[random.IntN(len(list))] }

func (h *historyMaker) is(percent int) bool { return h.random.IntN(100) < percent }

func (h *historyMaker) chooseNames(n int) []string {
	var names []string
	for _, i := range h.random.Perm(len(oddNames))[:n] {
		names = append(names, oddNames[i])
	}
	return names
}

// makeSchema returns a parameter schema with an odd root.
func (h *historyMaker) makeSchema(depth int) map[string]any {
	schema := map[string]any{}
	if h.is(80) {
		schema["type"] = choose(h.random, []any{"object", "object", "object", "OBJECT", "string", []any{"object", "null"}})
	}
	if h.is(70) {
		schema["properties"] = map[string]any{choose(h.random, []string{"q", "q", "$filter", "a b"}): true, "q": map[string]any{"type": "string"}, "n": choose(h.random, []any{true, map[string]any{"type": "integer"}})}
	}
	if h.is(30) {
		schema["required"] = choose(h.random, []any{[]any{"q"}, []any{"gone"}, []any{"q", 7.0}})
	}
	if h.is(10) {
		schema["$ref"] = choose(h.random, []string{"#", "#/$defs/a", "https://example.com/x.json", "#/gone"})
		schema["$defs"] = map[string]any{"a": map[string]any{"type": "object", "allOf": []any{map[string]any{"$ref": "#/$defs/a"}}}}
	}
	for _, keyword := range []string{"anyOf", "oneOf", "allOf"} {
		if depth < 3 && h.is(25) {
			schema[keyword] = []any{h.makeSchema(depth + 1), h.makeSchema(depth + 1)}
		}
	}
	if h.is(10) {
		schema["not"] = map[string]any{"required": []any{"n"}}
	}
	if h.is(10) {
		schema["enum"] = []any{map[string]any{"q": "a"}}
	}
	return schema
}

// makeEvents returns a session's events.
func (h *historyMaker) makeEvents() []*session.Event {
	var events []*session.Event
	for range 1 + h.random.IntN(12) {
		ev := h.newEvent(choose(h.random, oddAuthors), choose(h.random, oddRoles))
		switch kind := h.random.IntN(10); {
		case kind < 4:
			events = append(events, h.makeCalls()...)
			continue
		case kind == 4:
			ev.Content.Parts = append(ev.Content.Parts, h.makeResponse(h.makeCall()))
		case kind == 5:
			ev.Content.Parts = append(ev.Content.Parts, &genai.Part{FunctionCall: h.makeCall()})
		case kind == 6 && len(events) > 0:
			h.rewritePast(ev, events)
		}
		for range h.random.IntN(4) {
			ev.Content.Parts = append(ev.Content.Parts, h.makePart())
		}
		ev.Interrupted = h.is(5)
		events = append(events, ev)
	}
	return events
}

func (h *historyMaker) newEvent(author, role string) *session.Event {
	h.clock++
	ev := &session.Event{Author: author, InvocationID: fmt.Sprint("i", h.random.IntN(3)), Timestamp: time.Unix(h.clock, 0)}
	ev.Branch = choose(h.random, []string{"", "", "", "clerk", "clerk.helper"})
	ev.Content = &genai.Content{Role: role}
	return ev
}

// rewritePast makes an event a summary that covers earlier events, or a rewind.
func (h *historyMaker) rewritePast(ev *session.Event, events []*session.Event) {
	if h.is(30) {
		ev.Actions.RewindBeforeInvocationID = choose(h.random, events).InvocationID
		return
	}
	first, last := choose(h.random, events), choose(h.random, events)
	ev.Actions.Compaction = &session.Compaction{
		StartTimestamp: float64(first.Timestamp.Unix()), EndTimestamp: float64(last.Timestamp.Unix()), CompactedContent: model.ModelText("What happened."),
	}
}

// makeCalls returns an event with calls, and events with some responses.
func (h *historyMaker) makeCalls() []*session.Event {
	author := choose(h.random, []string{"clerk", "clerk", "helper"})
	ev := h.newEvent(author, genai.RoleModel)
	var open []*genai.Part
	for range 1 + h.random.IntN(3) {
		if h.is(20) {
			ev.Content.Parts = append(ev.Content.Parts, h.makePart())
		}
		call := h.makeCall()
		part := &genai.Part{FunctionCall: call}
		if h.is(20) {
			part.ThoughtSignature = []byte("sign")
		}
		ev.Content.Parts = append(ev.Content.Parts, part)
		if h.is(80) {
			open = append(open, h.makeResponse(call))
		}
	}
	events := []*session.Event{ev}
	h.random.Shuffle(len(open), func(i, j int) { open[i], open[j] = open[j], open[i] })
	for len(open) > 0 {
		n := 1 + h.random.IntN(len(open))
		answer := h.newEvent(author, genai.RoleUser)
		answer.Content.Parts = open[:n:n]
		open = open[n:]
		if h.is(20) {
			answer.Content.Parts = append(answer.Content.Parts, h.makePart())
		}
		if h.is(10) {
			events = append(events, h.newEvent("user", genai.RoleUser))
			events[len(events)-1].Content.Parts = []*genai.Part{{Text: "Wait."}}
		}
		events = append(events, answer)
	}
	return events
}

func (h *historyMaker) makeCall() *genai.FunctionCall {
	call := &genai.FunctionCall{ID: choose(h.random, oddIDs), Name: choose(h.random, oddNames)}
	if h.is(70) {
		call.Args = map[string]any{"q": choose(h.random, oddTexts), "n": 1.0}
	}
	return call
}

func (h *historyMaker) makeResponse(call *genai.FunctionCall) *genai.Part {
	r := &genai.FunctionResponse{ID: call.ID, Name: call.Name, Response: map[string]any{"result": choose(h.random, oddTexts)}}
	if h.is(10) {
		r.Response = nil
	}
	if h.is(20) {
		r.Parts = []*genai.FunctionResponsePart{
			{InlineData: &genai.FunctionResponseBlob{MIMEType: choose(h.random, oddTypes), Data: []byte(choose(h.random, oddData))}},
			{FileData: &genai.FunctionResponseFileData{MIMEType: choose(h.random, oddTypes), FileURI: choose(h.random, oddURIs)}},
			{},
		}
	}
	return &genai.Part{FunctionResponse: r}
}

// makePart returns a part without a call.
func (h *historyMaker) makePart() *genai.Part {
	p := &genai.Part{}
	for range 1 + h.random.IntN(6)/5 {
		switch h.random.IntN(8) {
		case 0, 1, 2:
			p.Text = choose(h.random, oddTexts)
		case 3, 4:
			p.InlineData = &genai.Blob{MIMEType: choose(h.random, oddTypes), Data: []byte(choose(h.random, oddData))}
		case 5:
			p.FileData = &genai.FileData{MIMEType: choose(h.random, oddTypes), FileURI: choose(h.random, oddURIs), DisplayName: choose(h.random, []string{"", "a\"b\xff"})}
		case 6:
			p.ExecutableCode = &genai.ExecutableCode{Code: choose(h.random, oddTexts), Language: "PYTHON"}
		case 7:
			p.CodeExecutionResult = &genai.CodeExecutionResult{Output: choose(h.random, oddTexts), Outcome: "OUTCOME_OK"}
		}
	}
	if h.is(15) {
		p.Thought = true
	}
	if h.is(15) {
		p.ThoughtSignature = []byte("sign")
		p.PartMetadata = choose(h.random, []map[string]any{nil, {"vendor": "anthropic", "model": "claude-x"}, {"vendor": "openai", "model": "gpt-4o"}, {"vendor": 7.0}})
	}
	if h.is(5) {
		p.VideoMetadata = &genai.VideoMetadata{}
	}
	return p
}
