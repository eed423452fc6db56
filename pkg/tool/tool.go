// Package tool defines the tool interface, and what tool kinds build on: declarations with their
// parameters, JSON Schemas, and the dependencies that the loader hands to a kind.
package tool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

// A Tool is a function that a model may call. Implementations are safe for
// concurrent use.
type Tool interface {
	// Declaration returns name, description and parameters. It is read-only. A
	// tool that the model never calls by name (one that only edits requests,
	// such as google_search) has a declaration with only a name, and is not
	// offered as a function: see [RequestEditor].
	Declaration() *genai.FunctionDeclaration

	// Run executes one call. The arguments are as the model sent them: Run must
	// check them, such as with [CheckArgs]. An error is returned to the model as
	// {"error": "…"} and the conversation continues, unless the tool's
	// capabilities specify otherwise. A nil result is {"result": null}; for a
	// long-running tool it means that there is no interim response.
	Run(ctx context.Context, call *Call) (*Result, error)
}

// A Result is a tool call's result.
type Result struct {
	// Response is what the model receives. Its values have JSON types.
	Response map[string]any
}

// A Set is what a tool kind builds: one tool or many.
type Set interface {
	// Tools lists the tools available now.
	Tools(ctx context.Context) ([]Tool, error)
	// Close releases the set's resources. It is called once, after the last run that used the set.
	Close() error
}

// A DynamicSet is a set whose tools may be unknown before a run lists them, such as a server's.
type DynamicSet interface {
	Set
	// Dynamic reports whether the tools are unknown.
	Dynamic() bool
}

// Dynamic reports whether a set's tools are unknown before a run lists them: it is a [DynamicSet].
func Dynamic(s Set) bool {
	l, ok := s.(DynamicSet)
	return ok && l.Dynamic()
}

// One returns a set with a single tool and nothing to close.
func One(t Tool) Set { return singleSet{t} }

type singleSet struct{ t Tool }

func (s singleSet) Tools(context.Context) ([]Tool, error) { return []Tool{s.t}, nil }

func (s singleSet) Close() error { return nil }

// Capabilities are what the runtime needs to know about a tool besides its declaration.
type Capabilities struct {
	// RequestOnly marks a tool that is not offered as a function: it only edits
	// requests.
	RequestOnly bool
	// LongRunning marks a tool whose result arrives later.
	LongRunning bool
	// StoresInterim marks a tool whose calls may take long, and store what they need to continue:
	// see [Call.StoreInterim].
	StoresInterim bool
	// Timeout limits a call; 0 means no limit.
	Timeout time.Duration
	// FailOnError ends the invocation when the tool fails.
	FailOnError bool
	// Confirm decides which calls a person must confirm; nil means none.
	Confirm Confirmer
	// Edit has the arguments that the person may change; nil means none.
	Edit *ArgsEditor
	// WritesState makes later calls in the same answer begin when the tool's call has ended, so
	// that they read the state that it wrote. Without it, they read whatever the calls that happen
	// to have ended wrote. It suits quick tools.
	WritesState bool
	// Scheduling lets a live model continue during a call, and is when it receives the
	// response; empty means that the model waits.
	Scheduling genai.FunctionResponseScheduling
	// Stream makes the tool return results repeatedly in live conversations; nil means
	// that it returns once.
	Stream *Stream
}

// A CapableTool is a tool with capabilities.
type CapableTool interface {
	Tool
	Capabilities() Capabilities
}

// CapabilitiesOf returns a tool's capabilities, the zero value for a tool that
// is no [CapableTool].
func CapabilitiesOf(t Tool) Capabilities {
	if h, ok := t.(CapableTool); ok {
		return h.Capabilities()
	}
	return Capabilities{}
}

// A Streamer is a tool whose source streams.
type Streamer interface {
	Tool
	// Stream returns a call's results in their order. An error is the last.
	Stream(ctx context.Context, call *Call) iter.Seq2[*Result, error]
}

// A RequestEditor is a tool that edits the request for each of its agent's model calls, after
// instructions and contents are set.
type RequestEditor interface {
	EditRequest(ctx context.Context, call *Call, req *model.Request) error
}

// A Call is one call to a tool, with its access to the session.
type Call struct {
	// ID and Name are the function call's.
	ID, Name string
	// Args are the arguments; the map belongs to the call.
	Args map[string]any

	// Origin identifies the call's app, agent, user and session.
	Origin model.Origin
	// State reads the session's state including this call's writes, and records
	// writes in Actions.
	State State
	// Actions are committed with the response event.
	Actions *session.Actions
	// Artifacts are the session's and its user's; never nil.
	Artifacts Artifacts
	// Memories are those of the session's user; never nil.
	Memories Memories
	// Confirmation is a person's approval of this call with its payload, nil before that. See
	// [Call.RequestConfirmation].
	Confirmation *session.Confirmation
	// Requested is the request that Confirmation answers, with its hint and payload as stored, nil
	// before that.
	Requested *session.Confirmation
	// Interim is the last interim response that an interrupted attempt has stored; nil for a call's
	// first attempt.
	Interim map[string]any
	// StoreInterim stores an interim response before the call continues, so that the next attempt
	// receives it if this one is interrupted. It is nil where a call cannot be continued: in agents
	// that are called as tools, in live conversations and in workflow nodes.
	StoreInterim func(ctx context.Context, response map[string]any) error
	// IsAbandoned reports, once the call's context has ended, that no other attempt will follow: the
	// client left, the time is up, or the app is not resumable. It is nil without StoreInterim.
	IsAbandoned func() bool
	// IdempotencyKey is the same each time this call is executed, including
	// retries after a crash, for services that deduplicate requests.
	IdempotencyKey string
	// EndInvocation ends the calling agent's run after this step's calls: neither its model nor its
	// after-agent callbacks run again. Its parent agents continue. The runtime always sets it.
	EndInvocation func()
	// Media is what a call receives if the tool watches the user; see [Stream]. It is nil for other
	// calls.
	Media *genai.Blob
	// NextMedia waits for what the user sends next, for a [Streamer] that watches. It is
	// nil for other calls.
	NextMedia func(ctx context.Context) (*genai.Blob, error)
	// Expressions is the budget that the turn's expressions share; nil means no limit.
	Expressions *template.Budget
	// AskModel sends a request to the calling agent's model, within the turn's limits on model
	// calls and cost, and returns the whole response. It is nil if the agent has no model.
	AskModel func(ctx context.Context, req *model.Request) (*model.Response, error)
}

// An Interceptor runs calls instead of the tools, such as to simulate them. It is called
// concurrently. Its result and error count as the tool's.
type Interceptor func(ctx context.Context, x *Execution) (*Result, error)

// An Execution is a call that is about to run: a person approved it, if that is
// required, and its context ends with the tool's timeout.
type Execution struct {
	Tool Tool
	Call *Call
	// Tools are the calling agent's tools.
	Tools []Tool
	// Run runs the tool itself.
	Run func(ctx context.Context) (*Result, error)
}

// State is the session's state as seen by one call. Returned values are copies:
// only Set and Update write.
type State interface {
	// Get returns a key's value, or its default.
	Get(key string) (any, bool)
	// Set records a write; nil removes the key.
	Set(key string, value any)
	// Update records atomic updates, which are applied to the stored values when
	// the call's event is committed: concurrent writers may have changed them.
	// If an update is invalid for the current value, none is recorded.
	Update(all ...session.StateUpdate) error
	// All returns all keys and values, including defaults.
	All() map[string]any
}

// Artifacts gives one call access to the artifacts. Save records the version in
// the call's actions.
type Artifacts interface {
	// Save stores a new version and returns its number, from 0.
	Save(ctx context.Context, name string, part *genai.Part) (int, error)
	// Load returns the latest version; session.ErrNotFound if there is none.
	Load(ctx context.Context, name string) (*genai.Part, error)
	// Keys lists the session's and the user's artifacts, sorted.
	Keys(ctx context.Context) ([]string, error)
}

// An AnswerError is a failure with a response: if the failure does not end the
// run, the model gets Response instead of {"error": …}.
type AnswerError struct {
	Err      error
	Response map[string]any
}

// Error returns the cause's message.
func (e *AnswerError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *AnswerError) Unwrap() error { return e.Err }

// ErrorResponse returns the response to the model for a call that failed.
func ErrorResponse(err error) map[string]any {
	var answered *AnswerError
	if errors.As(err, &answered) {
		return answered.Response
	}
	return map[string]any{"error": spec.ClientText(err)}
}

// An EndError is a failure that ends the invocation, whatever the tool's
// capabilities, and that no callback may handle: its cause is outside the tool.
type EndError struct{ Err error }

// Error returns the cause's message.
func (e *EndError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *EndError) Unwrap() error { return e.Err }

// A TimeoutError reports that a tool exceeded its timeout.
type TimeoutError struct {
	// Tool is the tool's name, Timeout the limit that it exceeded.
	Tool    string
	Timeout time.Duration
}

// Error names the tool and the timeout.
func (e *TimeoutError) Error() string {
	return fmt.Sprintf("%s: timed out after %s", e.Tool, FormatDuration(e.Timeout))
}

// Unwrap returns [context.DeadlineExceeded].
func (e *TimeoutError) Unwrap() error { return context.DeadlineExceeded }

// FormatDuration omits zero units at the end: 1m, not 1m0s.
func FormatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// RunWithTimeout bounds f by a timeout; 0 means no timeout. If f fails after the timeout, the error
// becomes a [*TimeoutError].
func RunWithTimeout(
	ctx context.Context, name string, d time.Duration, f func(context.Context) (*Result, error),
) (*Result, error) {
	if d <= 0 {
		return f(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, d, &TimeoutError{Tool: name, Timeout: d})
	defer cancel()
	res, err := f(ctx)
	if late := new(TimeoutError); err != nil && errors.As(context.Cause(ctx), &late) {
		return nil, late
	}
	return res, err
}

// Memories are the stored memories of the session's user, from this and earlier
// sessions. Nothing is added automatically.
type Memories interface {
	// Search returns at most ten memories that match a query, the best first.
	Search(ctx context.Context, query string) ([]*session.Memory, error)
	// SearchOthers is Search without this session's memories.
	SearchOthers(ctx context.Context, query string) ([]*session.Memory, error)
	// AddSession adds this session's conversation so far, replacing the session's earlier memories.
	// It does nothing for an agent that is called as a tool, because that has no session.
	AddSession(ctx context.Context) error
	// AddEvents adds event text as this session's memories, except for events that were added
	// before.
	AddEvents(ctx context.Context, events []*session.Event) error
	// Add adds memories that belong to no session.
	Add(ctx context.Context, memories ...*session.Memory) error
}

// A Confirmer decides which of a tool's calls require confirmation by a person before the tool
// runs. It is evaluated once per call, with the arguments as the model sent them; its error is the
// tool's, and the tool does not run.
type Confirmer interface {
	NeedsConfirmation(ctx context.Context, call *Call) (bool, error)
}

// A ConfirmFunc is a function that implements [Confirmer].
type ConfirmFunc func(ctx context.Context, call *Call) (bool, error)

// NeedsConfirmation implements [Confirmer].
func (f ConfirmFunc) NeedsConfirmation(ctx context.Context, call *Call) (bool, error) {
	return f(ctx, call)
}

// A SessionSet is a set whose tools may differ between sessions, such as those on a server that
// users authenticate to.
type SessionSet interface {
	Set
	// ListTools lists the tools for a call's session; the call has no ID, name and arguments.
	ListTools(ctx context.Context, call *Call) ([]Tool, error)
}

// ListTools lists a set's tools for a call's session.
func ListTools(ctx context.Context, s Set, call *Call) ([]Tool, error) {
	if own, ok := s.(SessionSet); ok {
		return own.ListTools(ctx, call)
	}
	return s.Tools(ctx)
}

// A FinderSet is a set that finds one of its tools by the name that models call. A set whose tools
// are unknown in tests has each of them there.
type FinderSet interface {
	Set
	// FindTool returns the tool for a call's session, or an [UnknownToolError].
	FindTool(ctx context.Context, call *Call, name string) (Tool, error)
}

// FindTool returns a set's tool with a name, for a call's session.
func FindTool(ctx context.Context, s Set, call *Call, name string) (Tool, error) {
	if own, ok := s.(FinderSet); ok {
		return own.FindTool(ctx, call, name)
	}
	tools, err := ListTools(ctx, s, call)
	if err != nil {
		return nil, err
	}
	return SelectTool(tools, name)
}

// SelectTool returns the first of the tools with a name, or an [UnknownToolError].
func SelectTool(tools []Tool, name string) (Tool, error) {
	unknown := &UnknownToolError{Name: name}
	for _, t := range tools {
		own := t.Declaration().Name
		if own == name {
			return t, nil
		}
		unknown.Names = append(unknown.Names, own)
	}
	return nil, unknown
}

// An UnknownToolError reports that no tool in a set has a name.
type UnknownToolError struct {
	Name  string
	Names []string
}

// maxNamesShown and maxNameShown bound the names in a message; a server may have many, and long
// ones.
const (
	maxNamesShown = 20
	maxNameShown  = 128
)

// Error implements [error]. It has the similar name, or the first names in the set.
func (e *UnknownToolError) Error() string {
	text := fmt.Sprintf("unknown tool %q", e.Name)
	if near := spec.Suggest(e.Name, e.Names); near != "" {
		text += ", did you mean " + near + "?"
	}
	return text + ": the tools are " + e.FormatNames()
}

// FormatNames returns the first names for a message.
func (e *UnknownToolError) FormatNames() string {
	names := make([]string, 0, maxNamesShown+1)
	for i, name := range e.Names {
		if i == maxNamesShown {
			names = append(names, fmt.Sprintf("and %d more", len(e.Names)-i))
			break
		}
		names = append(names, strings.ToValidUTF8(name[:min(len(name), maxNameShown)], ""))
	}
	return cmp.Or(strings.Join(names, ", "), "none")
}

// A PromptRequest names a [PromptSource]'s prompt.
type PromptRequest struct {
	Name string
	// Args are arguments by name. The prompt's arguments that are not in it are the state keys with
	// their names.
	Args map[string]string
}

// A PromptSource is a set whose server has prompts, such as an MCP server.
type PromptSource interface {
	// LoadPrompt returns a prompt's text for a call's session; the call has no ID, name and
	// arguments.
	LoadPrompt(ctx context.Context, call *Call, req *PromptRequest) (string, error)
}

// RequestInput is the function name in calls to ADK's tool request_input. Their arguments are
// message and optionally response_schema.
const RequestInput = "adk_request_input"

// UserChoice is the tool that asks the user to choose one of its argument
// options.
const UserChoice = "get_user_choice"
