package evalrun

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/safe"
	"agenthost/internal/toolstub"
	"agenthost/internal/turn"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/memstore"
	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalfile"
)

// A Runner runs cases on an app.
type Runner struct {
	// App is the app. The caller closes it after the last run.
	App *runtime.App
	// Models are the models for judges and simulated users; see [ModelNames].
	Models Models
	// Service is Vertex AI's evaluation service; nil without it.
	Service eval.Service
	// Custom are the metrics that the Go program has registered.
	Custom map[string]eval.MeasureFunc
	// Runs is how often each case runs, Parallel how many cases run at once. Both are at
	// least 1.
	Runs, Parallel int
	// Timeout limits a case's conversation.
	Timeout time.Duration
	// Cache has judge answers, for models with a fingerprint; see FingerprintModels in
	// package loader. Nil requests all answers.
	Cache        *AnswerCache
	Fingerprints map[string]string
	Logger       *slog.Logger
	// Clock and NewID provide result times, and the IDs for sessions and events; nil for
	// time.Now and random UUIDs.
	Clock func() time.Time
	NewID func() string
}

// A ResultLog receives the results as they come. It is used concurrently.
type ResultLog interface {
	// Count returns how many runs of a case have a result.
	Count(caseID string) int
	// Append adds a run's result.
	Append(result *eval.CaseResult) error
}

// Run runs a job's cases that the log does not have yet, and appends the results in the order
// in which they end. It returns when all have ended, or with the log's first error. When ctx
// ends, cases that are running are not recorded.
func (r *Runner) Run(ctx context.Context, job *Job, log ResultLog) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slots := make(chan struct{}, r.Parallel)
	var wg sync.WaitGroup
	for _, c := range job.Cases {
		for number := log.Count(c.ID); number < r.Runs; number++ {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				wg.Wait()
				return context.Cause(ctx)
			}
			wg.Go(func() {
				defer func() { <-slots }()
				defer safe.Recover(func(p *safe.Panic) { cancel(p) })
				result := r.runSafely(ctx, job, c, number)
				if ctx.Err() != nil {
					return
				}
				if err := log.Append(result); err != nil {
					cancel(err)
				}
			})
		}
	}
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// runSafely runs a case; a panic fails it.
func (r *Runner) runSafely(ctx context.Context, job *Job, c *eval.Case, number int) (result *eval.CaseResult) {
	if p := safe.Call(func() { result = r.runCase(ctx, job, c, number) }); p != nil {
		result = eval.FailedCase(c, p.Error())
		result.SetID, result.SetFile = job.Set.ID, job.Set.ID
	}
	return result
}

// defaultUser is a session's user, as in adk-python local_eval_service.py.
const defaultUser = "test_user_id"

// SessionPrefix begins the session IDs for cases, as in ADK 2.11.
const SessionPrefix = "adk-eval-session-"

// A caseRun is one run of a case.
type caseRun struct {
	job    *Job
	c      *eval.Case
	models Models
	// answers is nil without a cache.
	answers *caseAnswers
	host    *runtime.Host
	stubs   *toolstub.Run
	key     session.Key
	turns   []*eval.Invocation
	notes   []*eval.Note
	// outcomes has one outcome per turn, if a metric has an expression.
	outcomes []*turn.Outcome
	// events are the events from all turns.
	events                []*session.Event
	turnUsage, judgeUsage usageMeter
}

// runCase runs a case on the app and scores it. A case's runs count from 0.
func (r *Runner) runCase(ctx context.Context, job *Job, c *eval.Case, number int) *eval.CaseResult {
	st := memstore.New(&store.Options{Clock: r.Clock, NewID: r.NewID})
	defer st.Close()
	run := &caseRun{job: job, c: c, models: r.Models, answers: r.newCaseAnswers(number)}
	var result *eval.CaseResult
	if err := run.openHost(st, r); err != nil {
		result = eval.FailedCase(c, err.Error())
	} else if err := run.runConversation(ctx, r); err != nil {
		result = eval.FailedCase(c, err.Error())
	} else {
		o := &eval.Options{Judges: run.openJudge, Service: r.Service, Custom: run.customMetrics(r.Custom), AllowNotEvaluated: job.AllowNotEvaluated}
		result = o.Evaluate(ctx, c, run.turns, append(slices.Clip(job.measuresOf(c)), eval.InformationalMeasures()...))
		if ctx.Err() == nil {
			run.answers.commitAnswers()
		}
		run.checkFinalState(ctx, result)
	}
	result.SetID, result.SetFile = job.Set.ID, job.Set.ID
	result.SessionID, result.UserID = run.key.ID, run.key.User
	result.Notes = append(result.Notes, run.notes...)
	result.Usage = run.usageOrNil()
	run.addSession(ctx, result)
	return result
}

// newCaseAnswers returns nil without a cache.
func (r *Runner) newCaseAnswers(run int) *caseAnswers {
	if r.Cache == nil {
		return nil
	}
	return &caseAnswers{cache: r.Cache, settings: r.Fingerprints, run: run, uses: map[string][]bool{}}
}

// openHost opens a host whose tools answer as the case's stubs. The runner owns the app: the
// host is dropped without closing it.
func (c *caseRun) openHost(st *store.Store, r *Runner) error {
	stubs, o := cmp.Or(c.job.stubs[c.c], &evalfile.Stubs{}), &toolstub.RunOptions{}
	if stubs.Simulates() {
		llm, err := c.openModel(simulatorOrigin, stubs.Model, nil)
		if err != nil {
			return err
		}
		o.Ask = llm.Answer
	}
	c.stubs = stubs.Begin(o)
	c.host = runtime.NewHost(st, &runtime.Options{Logger: r.Logger, Clock: r.Clock, NewID: r.NewID, RunTool: c.stubs.RunTool})
	c.host.Swap(r.App)
	return nil
}

// openJudge opens the judge that options select; it is an [eval.Judges].
func (c *caseRun) openJudge(_ context.Context, o *eval.JudgeOptions) (eval.Judge, error) {
	j, err := c.openModel(judgeOrigin, o.Model, o.Config)
	if err != nil || c.answers == nil || c.answers.settings[o.Model] == "" {
		return j, err
	}
	return &cachedJudge{judge: j, answers: c.answers, settings: c.answers.settings[o.Model] + "\n" + string(o.Config)}, nil
}

func (c *caseRun) openModel(origin, name string, config json.RawMessage) (*judge, error) {
	llm, ok := c.models[name]
	if !ok {
		return nil, fmt.Errorf("model %s is not loaded", name)
	}
	j := &judge{llm: llm, origin: origin, config: &genai.GenerateContentConfig{}, usage: &c.judgeUsage}
	if len(config) > 0 {
		if err := eval.Decode(name, config, j.config); err != nil {
			return nil, fmt.Errorf("reading the config of model %s: %w", name, err)
		}
	}
	return j, nil
}

// runConversation creates the session and runs all turns.
func (c *caseRun) runConversation(ctx context.Context, r *Runner) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Timeout, fmt.Errorf("the conversation exceeded the timeout of %s", r.Timeout))
	defer cancel()
	input := cmp.Or(c.c.Session, &eval.SessionInput{})
	c.key = session.Key{App: r.App.Name(), User: cmp.Or(input.User, defaultUser), ID: input.ID}
	if c.key.ID == "" {
		c.key.ID = SessionPrefix + r.newID()
	}
	if _, err := c.host.Store().Sessions.Create(ctx, c.key, input.State); err != nil {
		return fmt.Errorf("creating the session: %w", err)
	}
	next, err := c.openUser()
	if err != nil {
		return err
	}
	for {
		message, err := next(ctx)
		if err != nil || message == nil {
			return err
		}
		if err := c.runTurn(ctx, r, message); err != nil {
			return fmt.Errorf("turn %d failed: %w", len(c.turns)+1, err)
		}
	}
}

// A messageFunc returns the user's next message, or nil at the end.
type messageFunc func(ctx context.Context) (*genai.Content, error)

// openUser returns the conversation's messages, or a simulated user's.
func (c *caseRun) openUser() (messageFunc, error) {
	if c.c.Scenario == nil {
		return func(context.Context) (*genai.Content, error) {
			if len(c.turns) == len(c.c.Conversation) {
				return nil, nil
			}
			return c.c.Conversation[len(c.turns)].UserContent, nil
		}, nil
	}
	llm, err := c.openModel(userOrigin, c.job.Simulator.Model, c.job.Simulator.ModelConfig)
	if err != nil {
		return nil, err
	}
	user := &eval.Simulator{Scenario: c.c.Scenario, Config: c.job.Simulator, Model: llm}
	return func(ctx context.Context) (*genai.Content, error) {
		text, end, err := user.Next(ctx, c.listHistory())
		if err != nil || end != eval.EndNone {
			return nil, err
		}
		return genai.NewContentFromText(text, genai.RoleUser), nil
	}, nil
}

// listHistory returns the conversation as the simulated user sees it.
func (c *caseRun) listHistory() []string {
	var lines []string
	for _, ev := range c.events {
		if ev.Content == nil {
			continue
		}
		for _, p := range ev.Content.Parts {
			switch {
			case p.Text != "" && !p.Thought:
				lines = append(lines, ev.Author+": "+p.Text)
			case p.FunctionCall != nil && c.job.Simulator.IncludeCalls:
				lines = append(lines, fmt.Sprintf("%s called tool '%s' with args: %s", ev.Author, p.FunctionCall.Name, formatJSON(p.FunctionCall.Args)))
			case p.FunctionResponse != nil && c.job.Simulator.IncludeCalls:
				lines = append(lines, fmt.Sprintf("Tool '%s' returned: %s", p.FunctionResponse.Name, formatJSON(p.FunctionResponse.Response)))
			}
		}
	}
	return lines
}

func formatJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// runTurn sends a message and adds the turn.
func (c *caseRun) runTurn(ctx context.Context, r *Runner, message *genai.Content) error {
	message, err := c.answerPending(message)
	if err != nil {
		return err
	}
	began, latency := r.readClock(), c.stubs.Latency()
	ctx, log := withRequestLog(ctx, &c.turnUsage, c.hasExpressions())
	req := &runtime.RunRequest{App: c.key.App, UserID: c.key.User, SessionID: c.key.ID, Protocol: "eval", Message: message}
	user := &session.Event{Author: session.UserAuthor, Timestamp: began}
	user.Content = message
	events := []*session.Event{user}
	ctx, stop := c.limitTurn(ctx)
	defer stop()
	for ev, err := range c.sendMessage(ctx, req) {
		if err != nil {
			return runCause(ctx, err)
		}
		if !ev.Partial {
			events = append(events, ev)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.addTurn(events, log.appDetails(), r.readClock().Sub(began))
	if log.keepsAll {
		return c.addOutcome(ctx, &turn.Outcome{Events: events[1:], Requests: log.listRequests(), ToolLatency: c.stubs.Latency() - latency})
	}
	return nil
}

// answerPending returns the message with the user's role and the IDs of pending calls.
// Function responses without an ID answer their functions' oldest calls, and a confirmation
// all requests in the oldest event. Those with an ID from an earlier session, from which the
// case was made, answer the oldest pending call with their name.
func (c *caseRun) answerPending(message *genai.Content) (*genai.Content, error) {
	answered := &genai.Content{Role: cmp.Or(message.Role, genai.RoleUser)}
	var open []*genai.FunctionCall
	for _, w := range runtime.Pending(c.events) {
		open = append(open, w.Calls...)
	}
	var answers []turn.Answer
	for _, p := range message.Parts {
		r := p.FunctionResponse
		switch {
		case r == nil:
			answered.Parts = append(answered.Parts, p)
		case r.ID == "" && r.Name == runtime.RequestConfirmation:
			parts, err := turn.Decision(r.Response).AnswerRequests(c.events)
			if err != nil {
				return nil, err
			}
			answered.Parts = append(answered.Parts, parts...)
		case r.ID == "":
			answers = append(answers, turn.Answer{Function: r.Name, Value: r.Response})
		default:
			var part *genai.Part
			part, open = renameResponse(p, open)
			answered.Parts = append(answered.Parts, part)
		}
	}
	parts, err := turn.AnswerCalls(c.events, answers)
	if err != nil {
		return nil, err
	}
	answered.Parts = append(answered.Parts, parts...)
	return answered, nil
}

// renameResponse returns a response with the ID of the call that it answers, and the calls that
// are still pending.
func renameResponse(p *genai.Part, open []*genai.FunctionCall) (*genai.Part, []*genai.FunctionCall) {
	i := slices.IndexFunc(open, func(call *genai.FunctionCall) bool { return call.ID == p.FunctionResponse.ID })
	if i < 0 {
		i = slices.IndexFunc(open, func(call *genai.FunctionCall) bool { return call.Name == p.FunctionResponse.Name })
	}
	if i < 0 {
		return p, open
	}
	part, response := *p, *p.FunctionResponse
	response.ID, part.FunctionResponse = open[i].ID, &response
	return &part, slices.Delete(open, i, i+1)
}

// sendMessage runs a turn, live if the job is.
func (c *caseRun) sendMessage(ctx context.Context, req *runtime.RunRequest) runtime.Events {
	if c.job.Live != nil {
		return turn.RunLive(ctx, c.host, req)
	}
	return c.host.Run(ctx, req)
}

// limitTurn limits a live turn, which otherwise lasts as long as the model is silent.
func (c *caseRun) limitTurn(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.job.Live == nil {
		return ctx, func() {}
	}
	timeout := c.job.Live.TurnTimeout()
	return context.WithTimeoutCause(ctx, timeout, fmt.Errorf("the live turn exceeded its timeout of %s", timeout))
}

// addTurn adds a turn with one invocation or, if it resumed earlier ones, with several.
func (c *caseRun) addTurn(events []*session.Event, app *eval.AppDetails, took time.Duration) {
	c.events = append(c.events, events...)
	for _, ev := range events {
		if ev.ErrorCode != "" {
			index := len(c.turns)
			c.notes = append(c.notes, &eval.Note{Turn: &index, Reason: fmt.Sprintf("%s: %s", ev.ErrorCode, ev.ErrorMessage)})
		}
	}
	inv := eval.TurnOf(events)
	seconds := took.Seconds()
	inv.App, inv.Duration = app, &seconds
	c.turns = append(c.turns, inv)
}

// runCause returns the cause of an internal error, whose own message is generic.
func runCause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if e := runtime.AsRunError(err); e.Code == runtime.CodeInternal && e.Err != nil {
		return e.Err
	}
	return err
}

// usageOrNil returns the usage by turns and judges, or nil if no model was called.
func (c *caseRun) usageOrNil() *eval.CaseUsage {
	u := &eval.CaseUsage{Turns: c.turnUsage.usageOrNil(), Judges: c.judgeUsage.usageOrNil()}
	if *u == (eval.CaseUsage{}) {
		return nil
	}
	return u
}

// addSession adds the whole session to a result, as ADK does.
func (c *caseRun) addSession(ctx context.Context, result *eval.CaseResult) {
	if c.host == nil {
		return
	}
	sess, err := c.host.Store().Sessions.Get(context.WithoutCancel(ctx), c.key, nil)
	if errors.Is(err, session.ErrNotFound) {
		return
	}
	if err == nil {
		result.Session, err = session.AppendSession(nil, sess)
	}
	if err != nil {
		result.Notes = append(result.Notes, &eval.Note{Reason: "adding the session: " + err.Error()})
	}
}

func (r *Runner) readClock() time.Time {
	if r.Clock == nil {
		return time.Now()
	}
	return r.Clock()
}

func (r *Runner) newID() string {
	if r.NewID == nil {
		return newUUID()
	}
	return r.NewID()
}

// newUUID returns a random version 4 UUID.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
