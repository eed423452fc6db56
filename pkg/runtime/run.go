package runtime

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// A run is what all agents in one invocation share. Its parts are set while the run is prepared,
// before the first agent starts, and are read without a lock afterwards:
//
//	turn      app, session and settings                 every run
//	message   the user's message                        every run; empty in a two-way run
//	resumed   the calls and events that it continues    a run that answers a call, or resumes an
//	                                                    invocation or a task
//	twoWay    the driver and the latest input           a two-way run
//	limits    what all agents count together            every run; an inner run shares two of them
//
// Parallel agents change the counters in limits and the input in twoWay. Both are safe for
// concurrent use. Nothing else changes.
type run struct {
	turn
	resumed
	message userMessage
	limits  turnLimits
	// twoWay is nil in a run that a message starts.
	twoWay *twoWayRun
}

// A turn is what is known about a run when it starts.
type turn struct {
	id   string
	host *Host
	// key identifies the session; it is known before sess.
	key    session.Key
	app    *App
	sess   *session.Session
	config RunConfig
	// agent is [RunRequest.Agent].
	agent string
	// protocol is [RunRequest.Protocol].
	protocol string
	// clientLeft is [RunRequest.ClientLeft].
	clientLeft func() bool
	// clientTools are [RunRequest.Tools].
	clientTools []tool.Tool
	// inner marks the run of an agent that is called as a tool. Its session is temporary.
	inner bool
	// onModelWait is [RunRequest.OnModelWait].
	onModelWait func(model.Wait)
	// traced are the attributes that all spans inside the run have; nil if it is not traced.
	traced []attribute.KeyValue
}

// A userMessage is the message that starts a run, as plugins leave it. A run that is resumed
// without one has its invocation's stored message.
type userMessage struct {
	content *genai.Content
	text    string
	// number counts the user's messages in the session.
	number int
}

// turnLimits are counted over all agents in a run.
type turnLimits struct {
	budget *callBudget
	// counter counts for the session's outcome; nil in a preview.
	counter *turnCounter
	// expressions is the budget that all expressions in the turn share.
	expressions *template.Budget
	// consultations counts each [ConsultTool]'s calls.
	consultations consultations
	// listed counts the elements of all list workers.
	listed atomic.Int64
	// nodeTools has the tools of sets that nodes have found, by *setTool.
	nodeTools sync.Map
}

// resumed is what a run continues. The zero value is for a new invocation.
type resumed struct {
	// calls finds the calls in the history; nil if the run neither answers a call nor resumes an
	// invocation.
	calls *callIndex
	// decisions are the user message's answers to confirmation and credential requests; nil for any
	// other message.
	decisions *decisions
	// record has a resumed invocation's events; nil for a new one.
	record *invocationRecord
	// taskScope is the scope of the workflow task that receives the user's message.
	taskScope string
}

// twoWayRun is what the agents in a two-way run share.
type twoWayRun struct {
	drive func(context.Context, *TwoWayTurn)
	// input is read by tools while the driver replaces it.
	input atomic.Pointer[userInput]
	// continues reports that the next agent continues another agent's conversation; over, that
	// no other agent starts.
	continues, over bool
}

// A userInput is the user's latest text or transcript, its number in the session, and the
// expression budget until the next one.
type userInput struct {
	text        string
	turn        int
	expressions *template.Budget
}

// logger is the host's logger with attributes for the run.
func (r *run) logger() *slog.Logger { return r.withRunAttrs(r.host.logger) }

// withRunAttrs returns a logger that adds the app, revision, session and
// invocation to every record.
func (r *run) withRunAttrs(logger *slog.Logger) *slog.Logger {
	return logger.With("app", r.app.name, "revision", r.app.revision, "session", r.sess.ID, "invocation", r.id)
}

// mergeMaps returns a map with the entries of both; those of b take
// precedence.
func mergeMaps(a, b map[string]any) map[string]any {
	merged := make(map[string]any, len(a)+len(b))
	maps.Copy(merged, a)
	maps.Copy(merged, b)
	return merged
}

// expressionBudget returns the budget that all expressions in the turn share.
func (r *run) expressionBudget() *template.Budget {
	if r.twoWay != nil {
		return r.twoWay.input.Load().expressions
	}
	return r.limits.expressions
}

// latestText returns the user message's text; in a two-way run, of the latest one.
func (r *run) latestText() string {
	if r.twoWay != nil {
		return r.twoWay.input.Load().text
	}
	return r.message.text
}

// latestTurn returns how many user messages the session has.
func (r *run) latestTurn() int {
	if r.twoWay != nil {
		return r.twoWay.input.Load().turn
	}
	return r.message.number
}

// ReadConfig implements [model.RunReader].
func (r *run) ReadConfig() map[string]any {
	c := &r.config
	mode := cmp.Or(c.StreamingMode, StreamingNone)
	if r.twoWay != nil {
		mode = StreamingBidi
	}
	modalities := make([]any, len(c.ResponseModalities))
	for i, m := range c.ResponseModalities {
		modalities[i] = m
	}
	labels := make(map[string]any, len(c.Labels))
	for k, v := range c.Labels {
		labels[k] = v
	}
	return map[string]any{
		"streaming_mode": string(mode), "support_cfc": c.SupportCFC, "response_modalities": modalities,
		"max_llm_calls": c.MaxLLMCalls, "max_function_calls": c.maxFunctionCalls(), "max_cost": c.MaxCost,
		"save_input_blobs_as_artifacts": c.SaveInputBlobsAsArtifacts, "text_answers": c.TextAnswers,
		"custom_metadata": maps.Clone(c.CustomMetadata), "labels": labels, "service_tier": string(c.ServiceTier),
	}
}

func (r *run) sessionVars() map[string]any {
	return map[string]any{"id": r.sess.ID, "user_id": r.sess.User, "app": r.sess.App}
}

// ReadState implements [model.RunReader].
func (r *run) ReadState(key string) (any, bool) {
	if v, ok := r.sess.State.Get(key); ok {
		return v, true
	}
	return r.app.state.Default(key)
}
