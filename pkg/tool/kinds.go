package tool

import (
	"agenthost/pkg/spec"
)

// Kinds lists the tool kinds that a document names as a one-key map.
func Kinds() spec.Kinds[Env, Set] {
	return spec.Kinds[Env, Set]{
		spec.NewKind("command", "Runs a program that the host policy allows.", newCommand),
		spec.NewKind("expr", "Computes its result with an expression.", newExpr),
		spec.NewKind("http", "Calls one HTTP endpoint.", newHTTP),
		spec.NewKind("skills", "Lets the model load skills: instructions with files and scripts.", newSkills),
	}
}

// Builtins lists ADK's built-in tools, which documents name by `name:`.
func Builtins() spec.Kinds[Env, Set] {
	return spec.Kinds[Env, Set]{
		spec.NewKind("DiscoveryEngineSearchTool", "Lets the model search a data store or an engine of Vertex AI Search, with the credentials of the host; models call it discovery_engine_search.", newDiscoverySearch),
		spec.NewKind("enterprise_web_search", "Lets models on Vertex AI use enterprise web search.", buildModelTool(newEnterpriseSearch)),
		spec.NewKind("ExampleTool", "Adds examples of conversations to the instruction of each model request.", newExampleTool),
		spec.NewKind("ExecuteBashTool", "Runs commands that the model writes, each after confirmation, if the host policy allows them; models call it execute_bash.", newBashTool),
		spec.NewKind("exit_loop", "Lets the model exit the enclosing loop.", buildCallTool(newExitLoop)),
		spec.NewKind("get_user_choice", "Asks the user to pick one of several options.", buildCallTool(newUserChoice)),
		spec.NewKind("google_maps_grounding", "Lets the model ground its answer in Google Maps.", buildModelTool(newGoogleMaps)),
		spec.NewKind("google_search", "Lets the model search with Google.", buildModelTool(newGoogleSearch)),
		spec.NewKind("load_artifacts", "Lets the model load the session's artifacts.", newLoadArtifacts),
		spec.NewKind("load_memory", "Lets the model search earlier conversations.", newLoadMemory),
		spec.NewKind("load_web_page", "Lets the model read the text of a web page, by its URL.", newWebPage),
		spec.NewKind("preload_memory", "Adds excerpts from earlier conversations that match the user's message to each model request.", newPreloadMemory),
		spec.NewKind("request_input", "Asks the user a question, answered in free text or by a schema; models call it adk_request_input.", buildCallTool(newInputRequest)),
		spec.NewKind("SkillToolset", "Lets the model load skills: instructions with files and scripts.", newSkillToolset),
		spec.NewKind("transfer_to_agent", "Transfers the conversation to another agent.", buildCallTool(newAnyTransfer)),
		spec.NewKind("url_context", "Lets the model read the URLs in the conversation.", buildModelTool(newURLContext)),
		spec.NewKind("VertexAiLoadProfilesTool", "Lets the model read the profiles that the Memory Bank of Vertex AI has of the user; models call it load_profiles.", newLoadProfiles),
		spec.NewKind("VertexAiRagRetrieval", "Lets models on Vertex AI search RAG corpora.", newRAGRetrieval),
		spec.NewKind("VertexAiSearchTool", "Lets models on Vertex AI search a data store or an engine of Vertex AI Search.", newVertexSearch),
	}
}
