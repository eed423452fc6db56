package apptest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/toolhttp"
	"agenthost/internal/toolstub"
	"agenthost/internal/turn"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/store/memstore"
	"agenthost/pkg/tool"
)

// A TestEnv replaces an app's environment during a test.
type TestEnv struct {
	// Model replaces all models, HTTP replaces the HTTP client.
	Model model.LLM
	HTTP  *http.Client
}

// Open opens a new instance of the app in env. The caller closes it.
type Open func(ctx context.Context, env *TestEnv) (*runtime.App, error)

// A Result is the result from one run of a test.
type Result struct {
	Test *Test
	// App is the app's name.
	App string
	// Failures are in turn order. The test passed if there are none.
	Failures []*Failure
	// Transcript has a line for each message and action, and a heading for each
	// turn.
	Transcript []string
	Took       time.Duration
}

// Passed reports whether all expectations hold.
func (r *Result) Passed() bool { return len(r.Failures) == 0 }

// Diagnostics returns the failures as diagnostics.
func (r *Result) Diagnostics() spec.Diagnostics {
	var ds spec.Diagnostics
	for _, f := range r.Failures {
		d := f.Diagnostic
		d.Message = fmt.Sprintf("test %q failed: %s", r.Test.Name, d.Message)
		if len(f.Values) > 0 {
			d.Hint = strings.Join(f.Lines(), "; ")
		}
		ds = append(ds, d)
	}
	return ds
}

// testUser is the user ID in tests.
const testUser = "user"

// Run runs the test with its own app and store. If the app cannot be opened, the
// test fails.
func (t *Test) Run(ctx context.Context, open Open) *Result {
	start := time.Now()
	r := &Result{Test: t}
	if err := t.runTurns(ctx, open, r); err != nil {
		r.Failures = append(r.Failures, &Failure{Turn: 1, Diagnostic: t.turns[0].node.Errorf("test-failed", "test aborted: %s", err)})
	}
	r.Took = time.Since(start)
	return r
}

func (t *Test) runTurns(ctx context.Context, open Open, r *Result) error {
	llm := newScriptedModel(t.answers)
	app, err := open(ctx, &TestEnv{Model: llm, HTTP: &http.Client{Transport: toolhttp.Blocked{Who: "tests"}}})
	if err != nil {
		return err
	}
	r.App = app.Name()
	st := memstore.New(nil)
	defer st.Close()
	var ids atomic.Int64
	p := &testRun{live: t.live, stubs: t.beginStubs(), model: llm, key: session.Key{App: app.Name(), User: testUser, ID: "test"}, result: r}
	p.host = runtime.NewHost(st, &runtime.Options{NewID: func() string { return fmt.Sprintf("test-%d", ids.Add(1)) }, RunTool: p.runTool})
	p.host.Swap(app)
	defer p.host.Close()
	for i, tu := range t.turns {
		if err := p.runTurn(ctx, i+1, tu); err != nil || !r.Passed() {
			return err
		}
	}
	return nil
}

// testRun is one run of a test.
type testRun struct {
	host   *runtime.Host
	stubs  *toolstub.Run
	model  *scriptedModel
	key    session.Key
	result *Result
	live   bool
}

// sendMessage runs a turn, live if the test is.
func (p *testRun) sendMessage(ctx context.Context, req *runtime.RunRequest) runtime.Events {
	if p.live {
		return turn.RunLive(ctx, p.host, req)
	}
	return p.host.Run(ctx, req)
}

func (p *testRun) runTurn(ctx context.Context, n int, tu *testTurn) error {
	p.key.ID = cmp.Or(tu.Session, p.key.ID)
	sess, delta, err := p.openSession(ctx, tu.State)
	if err != nil {
		return err
	}
	p.result.Transcript = append(p.result.Transcript, fmt.Sprintf("turn %d", n))
	message, err := tu.buildMessage(sess)
	if err != nil {
		p.addFailure(n, tu, err)
		return nil
	}
	p.result.Transcript = append(p.result.Transcript, formatUserMessage(message)...)
	o := &turn.Outcome{}
	before, latency := len(p.model.requestsSince(0)), p.stubs.Latency()
	req := &runtime.RunRequest{App: p.key.App, UserID: p.key.User, SessionID: p.key.ID, Message: message, StateDelta: delta, Writer: session.WriterAdmin}
	for ev, err := range p.sendMessage(ctx, req) {
		if err != nil {
			o.Err = runtime.AsRunError(err)
		} else if !ev.Partial {
			o.Events = append(o.Events, ev)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	o.ToolLatency = p.stubs.Latency() - latency
	if err := p.readOutcome(ctx, o, before); err != nil {
		return err
	}
	p.result.Transcript = append(p.result.Transcript, formatTurnOutcome(o)...)
	p.checkExpectations(ctx, n, tu, o)
	return nil
}

// runTool answers a call by its stubs. A tool that needs the network ends the test with an
// error that shows the stub to add.
func (p *testRun) runTool(ctx context.Context, x *tool.Execution) (*tool.Result, error) {
	result, err := p.stubs.RunTool(ctx, x)
	if out := (*toolhttp.BlockedError)(nil); errors.As(err, &out) {
		return nil, &tool.EndError{Err: fmt.Errorf("%w: add a stub, tools: {%s: {return: {…}}}", out, x.Call.Name)}
	}
	return result, err
}

// openSession returns the turn's session. A new session is created with the state; for an
// existing one, the state is returned as the message's delta.
func (p *testRun) openSession(ctx context.Context, state map[string]any) (*session.Session, map[string]any, error) {
	sess, err := p.host.Store().Sessions.Get(ctx, p.key, nil)
	if errors.Is(err, session.ErrNotFound) {
		sess, err = p.host.Store().Sessions.Create(ctx, p.key, state)
		state = nil
	}
	return sess, state, err
}

// readOutcome reads the session and its artifacts after a turn.
func (p *testRun) readOutcome(ctx context.Context, o *turn.Outcome, before int) error {
	var err error
	if o.Session, err = p.host.Store().Sessions.Get(ctx, p.key, nil); err != nil {
		return err
	}
	o.Artifacts, err = p.host.Store().Artifacts.Keys(ctx, p.key)
	o.Requests = p.model.requestsSince(before)
	return err
}

// checkExpectations checks a turn's expectations. A turn that ends with an error fails,
// unless an expectation reads the error.
func (p *testRun) checkExpectations(ctx context.Context, n int, tu *testTurn, o *turn.Outcome) {
	if o.Err != nil && !slices.ContainsFunc(tu.expect, (*expectation).readsError) {
		p.addFailure(n, tu, unwrapInternalError(o.Err))
		return
	}
	vars := o.Vars()
	for _, e := range tu.expect {
		if f := e.checkTurn(ctx, vars); f != nil {
			f.Turn = n
			p.result.Failures = append(p.result.Failures, f)
		}
	}
}

// readsError reports whether the expectation reads the turn's error.
func (e *expectation) readsError() bool {
	return slices.ContainsFunc(e.parts, func(part turn.Part) bool {
		return part.Text == "error" || strings.HasPrefix(part.Text, "error.") || strings.HasPrefix(part.Text, "error?.")
	})
}

// unwrapInternalError returns the cause of an internal error, whose own message is generic.
func unwrapInternalError(err *runtime.RunError) error {
	if err.Code == runtime.CodeInternal && err.Err != nil {
		return err.Err
	}
	return err
}

func (p *testRun) addFailure(n int, tu *testTurn, err error) {
	at := tu.node
	for _, key := range []string{"user", "confirm", "respond", "parts"} {
		if v := tu.node.Get(key); v != nil {
			at = v
			break
		}
	}
	p.result.Failures = append(p.result.Failures, &Failure{Turn: n, Diagnostic: at.Errorf("test-failed", "turn failed: %s", err)})
}

// buildMessage returns the turn's user message or decision.
func (tu *testTurn) buildMessage(sess *session.Session) (c *genai.Content, err error) {
	c = &genai.Content{Role: genai.RoleUser}
	switch {
	case tu.Confirm != nil:
		d := turn.NewDecision(*tu.Confirm)
		if tu.Payload != nil {
			d = d.WithPayload(tu.Payload.Any())
		}
		c.Parts, err = d.AnswerRequests(sess.Events())
		return c, err
	case tu.Respond != nil:
		var answers []turn.Answer
		for _, e := range tu.node.Get("respond").Entries {
			answers = append(answers, turn.Answer{Function: e.Key.Value, Value: tu.Respond[e.Key.Value]})
		}
		c.Parts, err = turn.AnswerCalls(sess.Events(), answers)
		return c, err
	}
	if tu.User != nil {
		c.Parts = append(c.Parts, &genai.Part{Text: tu.User.Value})
	}
	c.Parts = append(c.Parts, tu.Parts...)
	return c, nil
}
