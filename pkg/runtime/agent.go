package runtime

import (
	"context"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// An Agent is a node in an app's agent tree. It is immutable once built, and many runs use it
// concurrently.
type Agent interface {
	// Name is unique among its siblings, an identifier, and not "user".
	Name() string
	// Description describes the agent for agents that can transfer to it.
	Description() string
	// SubAgents returns the children in order.
	SubAgents() []Agent
	// Run yields the agent's events. Each event is stored and consumed before
	// the agent continues. An error ends the run. When yield returns false,
	// the agent must return without calling yield again.
	Run(ctx context.Context, inv *Invocation) Events
}

// Events is the event stream of a run. An error ends it.
type Events = iter.Seq2[*session.Event, error]

// A Base holds the fields that all agents have. Agents embed it.
type Base struct {
	AgentName        string
	AgentDescription string
	Children         []Agent
	// Callbacks run before and after the agent. Set them before the agent
	// becomes part of an app.
	Callbacks Callbacks

	when     *Condition
	attempts Attempts
	worker   *listWorker
}

func (b *Base) base() *Base { return b }

// Name returns the agent's name.
func (b *Base) Name() string { return b.AgentName }

// Description returns what the agent does.
func (b *Base) Description() string { return b.AgentDescription }

// SubAgents returns the children.
func (b *Base) SubAgents() []Agent { return b.Children }

// A baseAgent is an agent that embeds [Base], which callbacks and conditions
// require.
type baseAgent interface {
	base() *Base
}

var _ baseAgent = (*Base)(nil)

// Callbacks are functions that are called at certain points in an agent's run (adk-python
// agents/callback_context.py and the callbacks of its agents). The functions in a list are called
// in order until one returns an answer; nil continues normally. An error ends the run; a
// [*RunError] is reported unchanged. Functions are called concurrently. The lists for models and
// tools apply to LLM agents only.
type Callbacks struct {
	// BeforeAgent: an answer becomes an event instead of the agent's run, and AfterAgent is not
	// called. The run's other agents continue.
	BeforeAgent []AgentFunc
	// AfterAgent: an answer becomes an additional event after the agent's own.
	AfterAgent []AgentFunc
	// BeforeModel may change the request. An answer replaces the model call,
	// does not count as a call, and is not passed to AfterModel.
	BeforeModel []BeforeModelFunc
	// AfterModel: an answer replaces the model's response. It is called for each partial response
	// in a stream and for the whole response.
	AfterModel []AfterModelFunc
	// OnModelError: an answer replaces the error of a failed call.
	OnModelError []ModelErrorFunc
	// BeforeTool may change the arguments. An answer replaces the tool call;
	// AfterTool is called nevertheless.
	BeforeTool []BeforeToolFunc
	// AfterTool: an answer replaces the tool's result. It is not called for
	// errors that OnToolError did not handle.
	AfterTool []AfterToolFunc
	// OnToolError: an answer replaces the error of a failed call. It is also
	// called for unknown tools; AfterTool is not called then.
	OnToolError []ToolErrorFunc
}

// The callback types. Request contents are shared with the session: replace them, never change
// them. To change a response, return a changed Clone, which preserves whether the response is
// partial.
type (
	// AgentFunc is called before or after an agent.
	AgentFunc func(ctx context.Context, m *CallbackContext) (*genai.Content, error)
	// BeforeModelFunc is called before a model.
	BeforeModelFunc func(ctx context.Context, m *CallbackContext, req *model.Request) (*model.Response, error)
	// AfterModelFunc is called after a model.
	AfterModelFunc func(ctx context.Context, m *CallbackContext, resp *model.Response) (*model.Response, error)
	// ModelErrorFunc is called when a model call fails.
	ModelErrorFunc func(ctx context.Context, m *CallbackContext, req *model.Request, err error) (*model.Response, error)
	// BeforeToolFunc is called before a tool.
	BeforeToolFunc func(ctx context.Context, t tool.Tool, call *tool.Call) (*tool.Result, error)
	// AfterToolFunc is called after a tool; the result is nil when the tool
	// returned none.
	AfterToolFunc func(ctx context.Context, t tool.Tool, call *tool.Call, result *tool.Result) (*tool.Result, error)
	// ToolErrorFunc is called when a tool fails.
	ToolErrorFunc func(ctx context.Context, t tool.Tool, call *tool.Call, err error) (*tool.Result, error)
)

// A CallbackContext is a callback's context: the invocation of its agent, and the state, actions
// and artifacts that it can write. It is valid during the call.
type CallbackContext struct {
	*Invocation
	// State reads the session's state including this callback's writes.
	State tool.State
	// Actions are added to the resulting event: the callback's own, or the model response. Before
	// and after an agent, a state write or a saved artifact alone yields an event without content.
	Actions *session.Actions
	// Artifacts of the session and its user.
	Artifacts tool.Artifacts
	// The session user's memories; a callback can add the session.
	Memories tool.Memories
	// Event is the last event of the agent, or of one below it, in this run.
	// It is set for callbacks after an agent only, and nil if there is none.
	Event *session.Event
}

// A Plugin applies to every run in an app (adk-python plugins/base_plugin.py). All functions are
// optional and are called concurrently. Plugins are called in the app's list order, before agent
// callbacks. The first answer stops the chain: later plugins and the agent's callbacks are not
// called. An error ends the run.
type Plugin struct {
	// Name is unique in its app.
	Name string
	// Callbacks are called for every agent in the app, before the agent's own.
	Callbacks Callbacks

	// OnUserMessage may replace the user's message before it is stored. The context's agent is the
	// root; state writes go into the user's event.
	OnUserMessage func(ctx context.Context, m *CallbackContext, message *genai.Content) (*genai.Content, error)
	// BeforeRun: an answer becomes an event with author model instead of the agent's run.
	BeforeRun func(ctx context.Context, inv *Invocation) (*genai.Content, error)
	// OnEvent may replace an event, including partial ones, before it is stored and yielded. The
	// non-zero fields of its answer replace the fields of the event, except for ID, invocation and
	// time. It must not change the event itself, with which the agent continues.
	OnEvent func(ctx context.Context, inv *Invocation, ev *session.Event) (*session.Event, error)
	// AfterRun is called when the run has ended in any way: also by an error, by
	// BeforeRun, and by a consumer that stopped it (adk-python since 2.10). After
	// an error or a stop, its context ends after 5 seconds, and its own error is
	// only logged.
	AfterRun func(ctx context.Context, inv *Invocation) error
	// afterCompleted is called instead of AfterRun when the run ended without an error and was
	// not stopped.
	afterCompleted func(ctx context.Context, inv *Invocation)
	// OnAgentError and OnRunError observe the errors that end an agent and the run.
	// An error passes through each agent above the failed one, from the inside.
	OnAgentError func(ctx context.Context, inv *Invocation, failure *RunError)
	OnRunError   func(ctx context.Context, inv *Invocation, failure *RunError)
	// Close releases the plugin's resources, within the five seconds of its context. It is called
	// once, after the app's last run.
	Close func(ctx context.Context) error
}

// A Condition is a boolean expression over an invocation. It can use the names in [ExprEnv]. The
// zero value is always true.
type Condition struct {
	source   string
	compiled *template.Expr
}

// A Route is one alternative of a router.
type Route struct {
	// When is nil for the default route.
	When  *Condition
	Agent Agent
}

// An App is an immutable snapshot of one deployed app. A run holds the
// snapshot that it started with. A snapshot that was replaced in the host
// closes after its last run.
type App struct {
	name, description, revision string
	root                        Agent
	config                      RunConfig
	contextCache                *model.CacheConfig
	resumable                   bool
	// hasTasks reports that sub-agents have the mode task.
	hasTasks bool
	// hasTaskNodes reports that workflow nodes have the mode task.
	hasTaskNodes bool
	retention    time.Duration
	// outcomeRetention is OutcomeRetention.
	outcomeRetention time.Duration
	reload           ReloadOptions
	sections         map[string]any
	contextSizes     map[string]int

	nodes    map[Agent]*node
	rootNode *node
	// entries are the nodes outside of the tree, by name.
	entries map[string]*node
	plugins []*Plugin
	state   *tool.StateSchema
	refs    refCount

	compactor *compactor // nil if compaction is disabled
	live      LiveDriver
}

// Name returns the app's name.
func (a *App) Name() string { return a.name }

// Description returns what the app does.
func (a *App) Description() string { return a.description }

// Revision returns the content hash of all sources in the app; empty for apps built by Go code.
func (a *App) Revision() string { return a.revision }

// ContextSize returns how many prompt tokens an agent's model accepts; 0 means unknown.
func (a *App) ContextSize(agent string) int { return a.contextSizes[agent] }

// Root returns the agent tree's root.
func (a *App) Root() Agent { return a.root }

// Config returns the run config for invocations. A request can override it. Its pointers are shared
// with the app: do not modify their values.
func (a *App) Config() RunConfig {
	c := a.config
	c.CustomMetadata, c.ResponseModalities = maps.Clone(c.CustomMetadata), slices.Clone(c.ResponseModalities)
	return c
}

// ContextCache returns the context caching for models; nil means that it is disabled.
func (a *App) ContextCache() *model.CacheConfig {
	if a.contextCache == nil {
		return nil
	}
	c := *a.contextCache
	return &c
}

// Live returns what holds the app's live conversations; nil if the program has none.
func (a *App) Live() LiveDriver { return a.live }

// Resumable reports whether invocations can be resumed.
func (a *App) Resumable() bool { return a.resumable }

// Retention returns how long a session is kept after its last event; 0 means forever.
// The program that serves the app deletes expired sessions.
func (a *App) Retention() time.Duration { return a.retention }

// OutcomeRetention returns how long the outcomes of deleted sessions are kept, from the day of their turns; 0
// means that they are deleted with their session. See [Host.DeleteSession].
func (a *App) OutcomeRetention() time.Duration { return a.outcomeRetention }

// Reload returns how changes in the app's files are published.
func (a *App) Reload() ReloadOptions {
	c := a.reload
	c.Gate, c.EvalSets = slices.Clone(c.Gate), slices.Clone(c.EvalSets)
	return c
}

// Section returns a wing's settings by their key in app.yaml, such as chat; nil if the app has none.
// Do not modify them: all callers share the value.
func (a *App) Section(key string) any { return a.sections[key] }

// AppOptions are an app's settings besides its agent tree.
type AppOptions struct {
	// Description is empty to use the root agent's.
	Description string
	Revision    string
	// Config is nil for [DefaultRunConfig].
	Config *RunConfig
	// ContextCache configures context caching for every LLM agent in the tree; nil disables it.
	// Agents that are called as tools are excluded, because each call has its own session that
	// never continues.
	ContextCache *model.CacheConfig
	// Retention is how long a session is kept after its last event; 0 means
	// forever.
	Retention time.Duration
	// OutcomeRetention is how long the outcomes of deleted sessions are kept; 0 keeps none.
	OutcomeRetention time.Duration
	// Model is used by LLM agents that neither have a model nor inherit one.
	Model model.LLM
	// ContextSizes are how many prompt tokens the agents' models accept, by the agent's name; one without a size is
	// unknown.
	ContextSizes map[string]int
	// Compaction replaces the older part of a conversation by summaries; nil
	// disables it.
	Compaction *CompactionOptions
	// Summarizer writes the summaries; nil uses the root agent's model.
	Summarizer model.LLM
	// StateSchema types the state keys; nil accepts all values.
	StateSchema *tool.StateSchema
	// Reload is nil for the defaults.
	Reload *ReloadOptions
	// Sections are the settings of wings, by their key in app.yaml: see [App.Section].
	Sections map[string]any
	// Live holds live conversations; nil if the program has none.
	Live LiveDriver
	// Resumable allows invocations to be resumed after an interruption, or to
	// pause until a call is answered. Events then carry checkpoints.
	Resumable bool
	// Close releases the app's resources. It is called once, after the last run.
	Close func()
	// Entries are tools that a request can call, each by its node's name as [RunRequest.Agent]. See
	// [NewToolEntry].
	Entries []*ToolNode
	// Plugins apply to every run, in this order; their names are unique.
	Plugins []*Plugin
	// Logger receives errors from closing plugins; nil disables logging.
	Logger *slog.Logger
}

// compactor writes summaries for an app.
type compactor struct {
	CompactionOptions
	llm model.LLM
}

// Agent returns the first agent with this name, depth first from the root, or nil.
func (a *App) Agent(name string) Agent {
	if n := a.rootNode.findNode(name); n != nil {
		return n.agent
	}
	return nil
}

// findNode returns the first agent with this name, depth first from the root, or else the entry.
func (a *App) findNode(name string) *node {
	if n := a.rootNode.findNode(name); n != nil {
		return n
	}
	return a.entries[name]
}

// findTool returns an agent's tool, or nil if there is none or a tool set has it.
func (a *App) findTool(agent, name string) tool.Tool {
	if n := a.findNode(agent); n != nil && n.tools != nil {
		return n.tools.byName[name]
	}
	return nil
}

// A Host holds apps and runs invocations of them. It is safe for concurrent
// use.
type Host struct {
	store *store.Store
	newID func() string
	// newRunID returns the ID of an invocation: e- and an ID of newID.
	newRunID func() string
	now      func() time.Time
	wait     time.Duration
	logger   *slog.Logger
	// tracer is nil when runs are not traced, observe when they are not
	// measured.
	tracer        trace.Tracer
	traceContents bool
	observe       func(Measurement)
	runTool       tool.Interceptor
	replay        Replay
	consents      ConsentFinisher

	mu   sync.Mutex // serialises Swap and Remove
	apps atomic.Pointer[map[string]*App]

	revisions revisionCache
	split     SplitFunc
	// splitFailed is [Options].SplitFailed, never nil.
	splitFailed func(app, revision string, err error)
	workers     callWorkers
	// evaluations bound the large expressions in all runs.
	evaluations template.Slots
}

// Store returns the store for the host's sessions and artifacts.
func (h *Host) Store() *store.Store { return h.store }

// revisionCache holds older app revisions, loaded for sessions that still use them.
type revisionCache struct {
	// build is nil when older revisions are not available.
	build func(ctx context.Context, app, revision string) (*App, error)
	mu    sync.Mutex
	apps  map[string][]*App // by name, the most recently used last
	// assigned has the revision that [Options].Split has assigned to a new session last, by app.
	assigned map[string]string
	// builds are the builds that run, which other runs of the same revision wait for.
	builds map[buildKey]*revisionBuild
}

// A buildKey names a revision's build.
type buildKey struct{ app, revision string }

// A revisionBuild is a build that runs.
type revisionBuild struct {
	// done is closed at its end, after which err is its error, or nil for an app in the cache.
	done chan struct{}
	err  error
}

// Options configure a host. The zero value is valid.
type Options struct {
	// NewID returns IDs for events, invocations and calls; nil means random
	// UUIDs.
	NewID func() string
	// Clock returns the time for events; nil means time.Now.
	Clock func() time.Time
	// Wait is the longest time that a run waits for another run in its session; zero means 30
	// seconds.
	Wait time.Duration
	// LoadRevision loads an app at an older revision, for invocations and
	// sessions that continue on it. It returns [session.ErrNotFound] for a
	// revision that is not kept. Nil runs everything on the current revision.
	LoadRevision func(ctx context.Context, app, revision string) (*App, error)
	// Split, if set, chooses the revision of each turn in apps with [FollowNewSessions] that neither
	// resumes nor answers an invocation. Nil keeps sessions on the revision of their last event.
	Split SplitFunc
	// SplitFailed, if set, is called with each failure to load the revision that Split has chosen. It
	// is called on the run's goroutine, so it must be quick.
	SplitFailed func(app, revision string, err error)
	// Logger receives log records; nil disables logging.
	Logger *slog.Logger
	// ToolWorkers is the maximum number of goroutines that execute tool calls, in addition to the
	// runs' goroutines; zero means [DefaultToolWorkers].
	ToolWorkers int
	// TracerProvider creates the spans for runs, agents, model calls and tool calls. They are
	// children of the span in the caller's context. Span processors run on the run's goroutines, so
	// slow work must be done elsewhere. Nil disables tracing.
	TracerProvider trace.TracerProvider
	// TraceContents adds messages, tool arguments and tool results to the spans
	// ([IsContentAttribute]).
	TraceContents bool
	// Observe is called with the measurement for each run, model call and tool call when it ends.
	// It is called on the run's goroutines, so slow work must be done elsewhere. Nil disables
	// measurements.
	Observe func(Measurement)
	// RunTool, if set, runs all tool calls instead of the tools, agents as tools included.
	// Callbacks and approvals come before it.
	RunTool tool.Interceptor
	// Replay, if set, answers agents' model and tool calls. Nil calls them.
	Replay Replay
	// Consents take authorization servers' answers; nil rejects them.
	Consents ConsentFinisher
}

// A SplitFunc chooses the revision of a session's turn, to serve two revisions of an app at the same
// time. last is the revision of the session's last event, empty for a session without events of a
// known revision. It is called on the run's goroutine while the run holds the session, so it must be
// quick, and it is called concurrently. It must not change the session. If the revision of a turn
// cannot be loaded, the serving one runs it.
type SplitFunc func(ctx context.Context, serving *App, sess *session.Session, last string) Split

// A Split is a [SplitFunc]'s choice.
type Split struct {
	// Revision is the turn's revision; empty is the serving one.
	Revision string
	// Selected reports that an expression assigned the revision, and not chance. It is counted with
	// the session's outcome when the session gets a revision for the first time or another one.
	Selected bool
}

// A Replay answers model and tool calls, such as from recordings. It is called concurrently. It may
// call the model or the tool itself.
type Replay interface {
	// CallModel answers a model call.
	CallModel(ctx context.Context, call *ModelCall) iter.Seq2[*model.Response, error]
	// RunTool answers a tool call. Approvals belong to the execution: while one is pending, its
	// result is the answer to the model.
	RunTool(ctx context.Context, x *tool.Execution) (*tool.Result, error)
}

// A ModelCall is a model call that is about to start, after callbacks and plugins.
type ModelCall struct {
	Model   model.LLM
	Request *model.Request
	// Notes are the system instruction parts that the host wrote.
	Notes []string
}

// A RunRequest describes one invocation.
type RunRequest struct {
	App, UserID, SessionID string
	// Message is the user message. It must have parts and must not contain a
	// function call.
	Message *genai.Content
	// StateDelta is applied with the user's event.
	StateDelta map[string]any
	// Writer is the author of StateDelta; the zero value is a client.
	Writer session.Writer
	// Streaming requests partial events; nil uses the app's setting.
	Streaming *bool
	// Protocol is how the request arrived, such as run_sse, for the session's outcome; empty is
	// unknown.
	Protocol string
	// CustomMetadata is added to every event.
	CustomMetadata map[string]any
	// Config replaces the app config; nil uses the app's, see [App.Config].
	Config *RunConfig
	// CreateSession creates the session when it does not exist.
	CreateSession bool
	// InvocationID resumes an interrupted invocation in a resumable app, without a message or with
	// one that answers its call. An invocation that has ended has no more events. A message that
	// answers a call resumes the call's invocation even without InvocationID.
	InvocationID string
	// OnStart, if set, is called with the invocation's ID once the user's message is stored.
	OnStart func(invocation string)
	// OnModelWait, if set, is called before a model call waits for a retry or for a
	// limit. It does not block. Parallel agents may call it concurrently.
	OnModelWait func(model.Wait)
	// OnLastEvent, if set, is called before the run yields its last event. It
	// is not called when the last event is not known in advance: when
	// callbacks, plugins, checkpoints or other agents follow.
	OnLastEvent func()
	// ClientLeft, if set, reports after a run that was canceled or that the consumer stopped
	// whether its client has left. The run then stores an error response for each open call, or
	// else a root agent event with [CodeAborted], so that nothing in the session stays open. They
	// are not yielded.
	ClientLeft func() bool
	// Agent is the agent that answers the message, or one of [AppOptions.Entries], whose arguments the
	// message has as JSON; empty for the agent that continues the session. A call's answer goes to the
	// agent that made the call.
	Agent string
	// Tools are the client's: the LLM agents of the run have them besides their own, except agents
	// that are called as tools. Each is long-running and runs nothing: the client answers its calls
	// with a later message. The name of an agent's own tool is an error.
	Tools []tool.Tool
	// MaxToolCalls limits how many tool calls of the agents' models the run executes, including those in
	// agents called as tools; 0 means no limit. Calls of Tools and transfers do not count. The model reads
	// an error as the result of a call beyond the limit; if only such calls follow, the run ends with
	// [CodeToolCallsLimit].
	MaxToolCalls int
	// joined is the workflow task that the message continues.
	joined joinedTask
	// drive holds the LLM agents' parts: see [Host.RunTwoWay]. It is nil for a request with a
	// message.
	drive func(context.Context, *TwoWayTurn)
}
