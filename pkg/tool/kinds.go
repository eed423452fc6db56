package tool

import (
	"log/slog"
	"net/http"

	"agenthost/pkg/spec"
)

// Env is what building a tool may use.
type Env struct {
	// HTTP carries requests of tools; nil is http.DefaultClient. Which
	// addresses may be reached is decided by its transport.
	HTTP *http.Client
	// Dir is the app's folder, where programs run.
	Dir string
	// Offline tools ask no server and run no program, as in tests of an app.
	Offline bool
	// Logger is never nil.
	Logger *slog.Logger
}

// Kinds lists every tool kind that a document may name as a one-key map.
func Kinds() spec.Kinds[Env, Set] {
	return spec.Kinds[Env, Set]{
		spec.NewKind("expr", "Computes its answer with an expression.", newExpr),
		spec.NewKind("http", "Calls one HTTP endpoint.", newHTTP),
		spec.NewKind("mcp", "Offers the tools of an MCP server.", newMCP),
	}
}

// Builtins lists ADK's built-in tools, which documents name by `name:`.
func Builtins() spec.Kinds[Env, Set] {
	return spec.Kinds[Env, Set]{
		spec.NewKind("enterprise_web_search", "Lets a model on Vertex AI search the web for enterprises.", buildModelTool(newEnterpriseSearch)),
		spec.NewKind("exit_loop", "Lets the model end the loop around its agent.", buildCallTool(newExitLoop)),
		spec.NewKind("get_user_choice", "Asks the user to pick one of several options.", buildCallTool(newUserChoice)),
		spec.NewKind("google_maps_grounding", "Lets the model ground its answer in Google Maps.", buildModelTool(newGoogleMaps)),
		spec.NewKind("google_search", "Lets the model search with Google.", buildModelTool(newGoogleSearch)),
		spec.NewKind("load_artifacts", "Shows the session's artifacts to the model on request.", newLoadArtifacts),
		spec.NewKind("load_memory", "Lets the model look for what was said in earlier conversations.", newLoadMemory),
		spec.NewKind("preload_memory", "Shows the model what was said in earlier conversations and fits the user's message.", newPreloadMemory),
		spec.NewKind("request_input", "Asks the user a question, which is answered in free words or as a schema has it; models know it as adk_request_input.", buildCallTool(newInputRequest)),
		spec.NewKind("transfer_to_agent", "Hands the conversation to another agent.", buildCallTool(newAnyTransfer)),
		spec.NewKind("url_context", "Lets the model read the addresses in the conversation.", buildModelTool(newURLContext)),
	}
}

// Toolsets lists ADK's sets of tools, which documents name by `name:` too.
func Toolsets() spec.Kinds[Env, Set] {
	return spec.Kinds[Env, Set]{
		spec.NewKind("MCPToolset", "ADK's older name of McpToolset.", newADKMCP),
		spec.NewKind("McpToolset", "Offers the tools of an MCP server, as ADK writes it.", newADKMCP),
	}
}
