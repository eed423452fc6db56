package limit

import "time"

// An Input is a kind of data from outside, with the limits for one such item.
type Input struct {
	// Name is the subject in errors, and the row's name in docs/security.md.
	Name string
	// Bytes limits the size; 0 if a setting, which Note names, limits it.
	Bytes int
	// Values and Depth limit JSON; 0 if the input is not decoded as JSON.
	Values, Depth int
	// Time limits the whole exchange; 0 if a setting limits it, or the input is a file.
	Time time.Duration
	// Note is the setting that replaces a limit, or what else is limited.
	Note string
}

// All returns the table's rows in their order in docs/security.md.
func All() []Input {
	return []Input{
		RequestBody, CallbackForm, LiveRequest, StoredEvent,
		ModelAnswer, ModelEvent, ModelError, LiveMessage, Evaluation, PriceList,
		TokenAnswer, KeySet,
		ToolResult, WebPage, Search, ToolDocument, MCPMessage, MCPList, AgentCard, A2AAnswer,
		BucketListing, VertexAnswer, Credentials,
		AppDocument, AppFile, AppLoad, SkillFiles, SecretFile, EvalFile, ProgramFiles,
	}
}

const (
	// maxValues limits the values in inputs that have no smaller limit: their decoded form takes
	// some dozen MB.
	maxValues = 250_000
	// maxDepth limits how deep documents are nested: 1000, the depth of values that sessions store,
	// plus the levels of parts, contents, events and sessions around them.
	maxDepth = 1024
	// wireDepth is encoding/json's limit, for answers in which a value that is too deep fails only
	// the call whose arguments it is.
	wireDepth = 10_000
)

// Client requests.
var (
	RequestBody  = Input{Name: "request body", Bytes: 32 << 20, Values: maxValues, Depth: maxDepth, Note: "Go callers: `Options.MaxBody`"}
	CallbackForm = Input{Name: "form of `/oauth/callback`", Bytes: 16 << 10}
	LiveRequest  = Input{Name: "live request", Bytes: 4 << 20, Values: 100_000, Depth: maxDepth, Note: "1000 parts"}
)

// Session events.
var (
	StoredEvent = Input{Name: "event", Values: 2 * maxValues, Depth: maxDepth, Note: "bytes: `--max-event`"}
)

// ModelCalls limits the calls in an answer without max_function_calls, and ModelParts the parts in
// any answer.
const (
	ModelCalls = 1000
	ModelParts = 10_000
)

// Model service answers.
var (
	ModelAnswer = Input{Name: "response of the model", Bytes: 64 << 20, Values: maxValues, Depth: wireDepth, Note: "10 000 parts, `max_function_calls` calls; time: `timeouts` of the model"}
	ModelEvent  = Input{Name: "stream event of the model", Bytes: 32 << 20, Values: maxValues, Depth: wireDepth}
	ModelError  = Input{Name: "error of the model", Bytes: 64 << 10, Note: "cut"}
	LiveMessage = Input{Name: "live message of the model", Bytes: 16 << 20, Values: maxValues, Depth: maxDepth}
	Evaluation  = Input{Name: "response of Vertex AI evaluation", Bytes: 16 << 20, Values: maxValues, Depth: maxDepth, Time: 2 * time.Minute}
	PriceList   = Input{Name: "price list", Bytes: 32 << 20, Values: 1_000_000, Depth: maxDepth}
)

// Identity provider answers.
var (
	TokenAnswer = Input{Name: "token response", Bytes: 256 << 10, Values: 10_000, Depth: 100, Time: 30 * time.Second, Note: "metadata and device codes, too"}
	KeySet      = Input{Name: "key set", Bytes: 1 << 20, Values: 20_000, Depth: 100}
)

// Answers for tools.
var (
	// ToolResult also limits all results for one model answer together.
	ToolResult   = Input{Name: "tool result", Values: maxValues, Depth: maxDepth, Note: "bytes and time: settings of the tool; values of all results of one model response together"}
	WebPage      = Input{Name: "web page", Bytes: 5 << 20, Time: 30 * time.Second, Note: "cut; the model gets at most 100 000 characters"}
	Search       = Input{Name: "response of Discovery Engine", Bytes: 1 << 20, Values: maxValues, Depth: maxDepth}
	ToolDocument = Input{Name: "document", Bytes: 24 << 20, Values: 500_000, Depth: 100, Note: "OpenAPI or discovery; YAML 4 MiB"}
	MCPMessage   = Input{Name: "MCP message", Bytes: 16 << 20, Values: maxValues, Depth: wireDepth, Note: "a result is a tool result, too"}
	AgentCard    = Input{Name: "agent card", Bytes: 1 << 20, Values: 20_000, Depth: 100}
	A2AAnswer    = Input{Name: "response of a remote agent", Bytes: 16 << 20, Values: maxValues, Depth: wireDepth, Note: "whole streams; time: `timeout` of the agent"}
	MCPList      = Input{Name: "MCP list", Bytes: 16 << 20, Values: maxValues, Depth: maxDepth, Note: "5000 entries, 100 pages; values of each page"}
)

// Storage service answers.
var (
	BucketListing = Input{Name: "bucket listing", Bytes: 16 << 20, Values: maxValues, Depth: maxDepth, Time: 2 * time.Minute, Note: "one page"}
	VertexAnswer  = Input{Name: "response of Vertex AI", Bytes: 128 << 20, Values: 2_000_000, Depth: wireDepth, Time: 30 * time.Second}
	Credentials   = Input{Name: "credentials of AWS", Bytes: 1 << 20}
)

// fileDepth limits YAML nesting.
const fileDepth = 64

// Files. YAML values are its lines, keys and items.
var (
	AppDocument = Input{Name: "YAML document", Bytes: 1 << 20, Values: 50_000, Depth: fileDepth, Note: "aliases add at most 10 000 nodes, 100 times the written ones, and 1 MiB"}
	AppFile     = Input{Name: "file of an app", Bytes: 4 << 20}
	// AppLoad limits what one app load reads, counted at each use.
	AppLoad      = Input{Name: "all files of an app", Bytes: 32 << 20, Values: 500_000, Depth: fileDepth, Time: 10 * time.Second, Note: "its folder: 256 MiB, 10 000 entries, 32 levels"}
	SkillFiles   = Input{Name: "skills of a tool", Bytes: 16 << 20, Note: "200 skills, 1000 files each"}
	SecretFile   = Input{Name: "secret file", Bytes: 64 << 10}
	EvalFile     = Input{Name: "eval set or result", Bytes: 64 << 20, Values: 2_000_000, Depth: maxDepth}
	ProgramFiles = Input{Name: "files that a program returns", Bytes: 32 << 20, Note: "50 files"}
)
