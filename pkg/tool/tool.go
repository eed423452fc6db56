// Package tool is the contract of tools, and the kinds of tools that a
// document may name.
package tool

import (
	"context"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/template"
)

// A Tool is something that a model may call. Implementations are safe for use
// by many goroutines.
type Tool interface {
	// Declaration says name, purpose and parameters. It is read-only. A tool
	// that the model never calls by name (one that only edits requests, such as
	// google_search) has a declaration with a name and no more, and is not
	// offered as a function: see [RequestEditor].
	Declaration() *genai.FunctionDeclaration

	// Run carries out one call. The arguments are as the model gave them:
	// checking them, as [CheckArgs] does, is Run's part. An error is told to
	// the model as {"error": "…"} and the conversation goes on, unless the
	// tool's traits say otherwise. A nil result answers {"result": null}; for a
	// long-running tool it answers nothing yet.
	Run(ctx context.Context, call *Call) (*Result, error)
}

// A Result is the answer of a tool.
type Result struct {
	// Response is what the model sees. Values are what JSON has.
	Response map[string]any
}

// A Set is what a tool kind builds: one tool or many.
type Set interface {
	// Tools lists the tools on offer now.
	Tools(ctx context.Context) ([]Tool, error)
	// Close ends what the set holds open. It is called once, after the last
	// run that used it.
	Close() error
}

// Dynamic says whether the tools of a set are not known before a run asks for
// them: the set has a method Dynamic that says so.
func Dynamic(s Set) bool {
	l, ok := s.(interface{ Dynamic() bool })
	return ok && l.Dynamic()
}

// One makes a set of a single tool with nothing to close.
func One(t Tool) Set { return singleSet{t} }

type singleSet struct{ t Tool }

func (s singleSet) Tools(context.Context) ([]Tool, error) { return []Tool{s.t}, nil }
func (s singleSet) Close() error                          { return nil }

// Capabilities are what the runtime has to know about a tool besides its declaration.
type Capabilities struct {
	// Builtin tools are not offered as functions: they only edit requests.
	Builtin bool
	// LongRunning tools are answered later.
	LongRunning bool
	// Timeout bounds a call; 0 is no bound.
	Timeout time.Duration
	// FailOnError ends the invocation when the tool fails.
	FailOnError bool
	// Confirm says which calls need a person's approval; nil is none.
	Confirm Confirmer
}

// CapabilitiesOf returns a tool's traits; a tool without the method Capabilities has none.
func CapabilitiesOf(t Tool) Capabilities {
	if h, ok := t.(interface{ Capabilities() Capabilities }); ok {
		return h.Capabilities()
	}
	return Capabilities{}
}

// A RequestEditor is a tool that changes the request of every model call of
// its agent, after instructions and contents are in.
type RequestEditor interface {
	EditRequest(ctx context.Context, call *Call, req *model.Request) error
}

// A Call is one call of a tool, and what it may touch.
type Call struct {
	// ID and Name are those of the function call.
	ID, Name string
	// Args are the arguments; the map is the call's own.
	Args map[string]any

	// Origin says for whom it runs.
	Origin model.Origin
	// State reads the session's state with this call's own writes on top, and
	// records writes in Actions.
	State State
	// Actions ride on the event of the answer.
	Actions *session.Actions
	// Artifacts of the session and its user; never nil.
	Artifacts Artifacts
	// Memories of the session's user; never nil.
	Memories Memories
	// Confirmation is a person's approval of this call, with the payload that
	// came with it; nil before one was given. See [Call.RequestConfirmation].
	Confirmation *session.Confirmation
	// IdempotencyKey is the same each time this call is carried out, also
	// after a crash: a key for services that make a thing only once.
	IdempotencyKey string
	// EndInvocation ends the run of the agent that calls, behind the calls of
	// this step: its model is not asked again, and no callback after the agent.
	// Agents around it go on. The runtime always sets it.
	EndInvocation func()
	// Expressions is what the expressions of the turn may use up together; nil is
	// no limit.
	Expressions *template.Budget
}

// State is the session's state as one call sees it. Values that it gives are the
// caller's own: changing one changes nothing, only Set and Update write.
type State interface {
	// Get returns a key's value, or its default.
	Get(key string) (any, bool)
	// Set records a write; nil removes the key.
	Set(key string, value any)
	// Update records writes whose values follow from what is stored when the
	// call's event is: others may have changed it since. When one cannot follow
	// from the value at hand, none is recorded.
	Update(all ...session.StateUpdate) error
	// All returns all keys and values, those with a default included.
	All() map[string]any
}

// Artifacts are the artifacts that one call may use. Saving records the
// version in the call's actions.
type Artifacts interface {
	// Save stores a new version and returns its number, from 0.
	Save(ctx context.Context, name string, part *genai.Part) (int, error)
	// Load returns the latest version; session.ErrNotFound if there is none.
	Load(ctx context.Context, name string) (*genai.Part, error)
	// Keys lists the session's and the user's artifacts, sorted.
	Keys(ctx context.Context) ([]string, error)
}
