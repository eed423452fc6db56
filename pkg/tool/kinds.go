package tool

import (
	"log/slog"
	"net/http"

	"agenthost/pkg/spec"
)

// Env holds the dependencies of tools.
type Env struct {
	// HTTP sends the requests of tools; nil means http.DefaultClient. Its
	// transport decides which addresses are allowed.
	HTTP *http.Client
	// Dir is the app folder, in which programs run.
	Dir string
	// Offline prevents tools from connecting to servers and running programs, as
	// in tests of an app.
	Offline bool
	// Logger is never nil.
	Logger *slog.Logger
}

// An AddressConfig is the config of a kind whose tools send requests. The loader
// checks the addresses against the policy of the host.
type AddressConfig interface {
	// Addresses returns the URLs of the servers; a placeholder may follow the host.
	Addresses() []spec.Text
}

// A ProgramConfig is the config of a kind whose tools run a program, which the policy
// of the host must allow.
type ProgramConfig interface {
	// Program returns the program, or nil if the tool runs none.
	Program() *Program
}

// A Program is a program that a tool runs.
type Program struct {
	// Args are the program and its arguments.
	Args []string
	// Env are the sorted names of the variables that the app sets for it.
	Env []string
	// At is the position of its name in the document.
	At spec.Text
}

// Kinds lists the tool kinds that a document names as a one-key map.
func Kinds() spec.Kinds[Env, Set] {
	return spec.Kinds[Env, Set]{
		spec.NewKind("expr", "Computes its result with an expression.", newExpr),
		spec.NewKind("http", "Calls one HTTP endpoint.", newHTTP),
	}
}

// Builtins lists ADK's built-in tools, which documents name by `name:`.
func Builtins() spec.Kinds[Env, Set] {
	return spec.Kinds[Env, Set]{
		spec.NewKind("enterprise_web_search", "Lets models on Vertex AI use enterprise web search.", buildModelTool(newEnterpriseSearch)),
		spec.NewKind("exit_loop", "Lets the model exit the enclosing loop.", buildCallTool(newExitLoop)),
		spec.NewKind("get_user_choice", "Asks the user to pick one of several options.", buildCallTool(newUserChoice)),
		spec.NewKind("google_maps_grounding", "Lets the model ground its answer in Google Maps.", buildModelTool(newGoogleMaps)),
		spec.NewKind("google_search", "Lets the model search with Google.", buildModelTool(newGoogleSearch)),
		spec.NewKind("load_artifacts", "Lets the model load the session's artifacts.", newLoadArtifacts),
		spec.NewKind("load_memory", "Lets the model search earlier conversations.", newLoadMemory),
		spec.NewKind("preload_memory", "Adds excerpts from earlier conversations that match the user's message to each model request.", newPreloadMemory),
		spec.NewKind("request_input", "Asks the user a question, answered in free text or by a schema; models call it adk_request_input.", buildCallTool(newInputRequest)),
		spec.NewKind("transfer_to_agent", "Transfers the conversation to another agent.", buildCallTool(newAnyTransfer)),
		spec.NewKind("url_context", "Lets the model read the URLs in the conversation.", buildModelTool(newURLContext)),
	}
}
