package runtime

import (
	"context"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// LLMOptions are an LLM agent's optional settings.
type LLMOptions struct {
	Description string
	// Model is nil to inherit the nearest ancestor's model.
	Model             model.LLM
	Instruction       *Instruction
	GlobalInstruction *Instruction
	// StaticInstruction is sent unchanged; Instruction then becomes user
	// content.
	StaticInstruction *genai.Content
	Tools             []tool.Tool
	// Toolsets provide more tools, listed once per run of the agent. The
	// caller closes them.
	Toolsets  []tool.Set
	SubAgents []Agent
	// Code is nil to treat code that the model writes as text.
	Code *CodeExecution
	// Planner is nil for no planning.
	Planner *Planner
	// OutputKey is the state key that receives the final answer's text.
	OutputKey string
	// OutputSchema, if set, is the final answer's schema; OutputKey then receives the decoded value
	// instead of the text.
	OutputSchema *tool.Schema
	// Mode is how the agent works for its parent; see [Mode].
	Mode Mode
	// InputSchema has the agent's parameters when it is called as a tool.
	InputSchema              *tool.Schema
	IncludeContents          IncludeContents
	DisallowTransferToParent bool
	DisallowTransferToPeers  bool
	GenerateContentConfig    *genai.GenerateContentConfig
	Callbacks                Callbacks
	// WithoutStopStreaming does not add stop_streaming to an agent's live conversations if its
	// tools stream; adk-python requires apps to declare it.
	WithoutStopStreaming bool

	// InstructionProvider, if set, replaces Instruction.
	InstructionProvider InstructionFunc
}

// IncludeContents selects the part of the conversation that a model sees. The zero value is
// IncludeDefault, but for a [Workflow] node it is the node's input.
type IncludeContents string

// The values of [IncludeContents].
const (
	IncludeDefault IncludeContents = "default" // all that is visible on its branch
	IncludeNone    IncludeContents = "none"    // the current turn only
)

// An LLMAgent calls a model, executes the response's tool calls, and repeats both until the model
// returns a final answer.
type LLMAgent struct {
	Base
	opts     LLMOptions
	identity string
}

// NewLLM returns an LLM agent; opts may be nil.
func NewLLM(name string, opts *LLMOptions) *LLMAgent {
	if opts == nil {
		opts = &LLMOptions{}
	}
	a := &LLMAgent{
		Base: Base{AgentName: name, AgentDescription: opts.Description, Children: opts.SubAgents, Callbacks: opts.Callbacks},
		opts: *opts,
	}
	// The instruction begins with the agent's identity (adk-python flows/llm_flows/identity.py).
	a.identity = `You are an agent. Your internal name is "` + name + `".`
	if opts.Description != "" {
		a.identity += ` The description about you is "` + opts.Description + `".`
	}
	a.opts.Code = opts.Code.withDefaults()
	return a
}

// An Instruction is compiled text for a model. It has its source position, so that the error for a
// missing value contains the line.
type Instruction struct {
	written string
	text    *template.Text
	// at returns a byte offset's position.
	at func(offset int) spec.Pos
}

// An InstructionFunc computes a whole instruction. It reads the invocation;
// placeholders are replaced only in text that it passes to [Invocation.Inject].
// It is called concurrently. A [*RunError] is reported
// unchanged.
type InstructionFunc func(ctx context.Context, inv *Invocation) (string, error)

// A Planner makes a model plan before it acts. At most one field is set; the zero
// value and nil do nothing.
type Planner struct {
	// PlanReact instructs the model to write a plan, which works with any model. The plan and the
	// reasoning become thoughts; the text after the final answer's tag is the answer.
	PlanReact bool
	// Thinking configures the model's thinking. It replaces the thinking_config in the agent's
	// settings.
	Thinking *genai.ThinkingConfig
}

// A CodeExecutor runs code that a model writes. Many runs use one at once.
type CodeExecutor interface {
	// ExecuteCode runs code, and ends when ctx does. An error is returned to the model, like output
	// on Stderr, and the model may try again. State and actions written to the context are part of
	// the result's event.
	ExecuteCode(ctx context.Context, m *CallbackContext, code *Code) (*CodeResult, error)
}

// A CodePreparer is a [CodeExecutor] that may not be ready when its app is loaded. An execution's
// timeout begins after PrepareCode has returned; its error is the result.
type CodePreparer interface {
	PrepareCode(ctx context.Context) error
}

// Code is code that a model wrote for execution.
type Code struct {
	Source string
	// ExecutionID is the same for all code of a session when executions are
	// stateful, and empty when each is on its own.
	ExecutionID string
}

// A CodeResult is an execution's result.
type CodeResult struct {
	Stdout string
	// Stderr, if not empty, marks the execution as failed.
	Stderr string
	// Files are saved as artifacts under their DisplayName.
	Files []*genai.Blob
}

// CodeExecution configures how an agent executes the code that its model writes. The zero value
// uses the model's own sandbox, whose responses contain the code and its result. The other fields
// apply to an Executor only.
type CodeExecution struct {
	Executor CodeExecutor
	// Stateful keeps the interpreter state between executions in a session.
	Stateful bool
	// Attempts is how many consecutive failures one invocation may have; after that, the model's
	// text is its answer. Zero means 2.
	Attempts int
	// Blocks are the code delimiters in the model's text; the first pair is used to show code to
	// the model. Result are the result delimiters. Nil and zero mean ADK's.
	Blocks []CodeDelimiters
	Result CodeDelimiters
	// Timeout limits an execution; zero means 30 seconds.
	Timeout time.Duration
	// MaxOutput limits each output that the model sees, in bytes; zero means
	// 64 KiB.
	MaxOutput int
}

// CodeDelimiters enclose code or a result in text.
type CodeDelimiters struct{ Before, After string }

// Default limits and delimiters; the delimiters and attempts are as in adk-python
// code_executors/base_code_executor.py.
const (
	codeAttempts  = 2
	codeTimeout   = 30 * time.Second
	codeMaxOutput = 64 << 10
)

// withDefaults returns the execution with defaults for unset fields.
func (c *CodeExecution) withDefaults() *CodeExecution {
	if c == nil || c.Executor == nil {
		return c
	}
	s := *c
	if s.Attempts == 0 {
		s.Attempts = codeAttempts
	}
	if len(s.Blocks) == 0 {
		s.Blocks = []CodeDelimiters{{"```tool_code\n", "\n```"}, {"```python\n", "\n```"}}
	}
	if s.Result == (CodeDelimiters{}) {
		s.Result = CodeDelimiters{"```tool_output\n", "\n```"}
	}
	if s.Timeout == 0 {
		s.Timeout = codeTimeout
	}
	if s.MaxOutput == 0 {
		s.MaxOutput = codeMaxOutput
	}
	return &s
}

// hasExecutor reports whether code runs in an executor other than the model's
// own.
func (c *CodeExecution) hasExecutor() bool { return c != nil && c.Executor != nil }

// Mode is how an LLM agent works for its parent (adk-python agents/llm_agent.py). The zero value is
// ModeChat, but ModeSingleTurn for a [Workflow] node.
type Mode string

// The values of [Mode].
const (
	// ModeChat: the parent can transfer the conversation to the agent.
	ModeChat Mode = "chat"
	// ModeSingleTurn: the parent calls the agent as a tool. The agent sees its input
	// and no history, and no user answers it.
	ModeSingleTurn Mode = "single_turn"
	// ModeTask: the parent calls the agent as a tool. The agent sees its input and talks with the
	// user, over several turns, until it calls finish_task. The root may have this mode, too; it
	// then sees the conversation. A [Workflow] node in a resumable app may have it, and its output
	// is finish_task's result.
	ModeTask Mode = "task"
)

// Attempts limit a [Workflow] node's time, and repeat the node when it fails (adk-python
// workflow/_retry_config.py). The zero value is one attempt without a limit.
type Attempts struct {
	// Timeout limits each attempt; 0 does not. A function that ignores its context runs on, and
	// delays the workflow.
	Timeout time.Duration
	// Max is how many attempts there are, including the first; 0 is 1.
	Max int
	// Initial is the delay before the second attempt. Each later delay is Backoff times
	// longer, at most Longest.
	Initial, Longest time.Duration
	Backoff          float64
	// Jitter is how much each delay varies in both directions, as a fraction: 0 to 1.
	Jitter float64
	// Codes are the error codes to retry; nil retries all. Exceeded run limits and invalid requests
	// are never retried.
	Codes []string
}
