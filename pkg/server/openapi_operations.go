package server

// An operation is what the OpenAPI document says of a route.
type operation struct {
	// pattern is the route's; those of developers have no prefix.
	pattern string
	// id is unique: client generators make a function of it.
	id, summary string
	// params are the names of query parameters and headers in openapi.yaml.
	params []string
	// body and answer are the schemas of both. [X] is a list, MEDIA/TYPE is text,
	// MEDIA/TYPE:X is text that holds X. An empty answer is null.
	body, answer string
	// altStatus is another status with the same answer.
	altStatus string
}

// An operationGroup is the operations of a tag of openapi.yaml.
type operationGroup struct {
	tag        string
	operations []operation
}

// notSupported is the answer of a route that this server refuses with 501.
const notSupported = "501"

// operationGroups describe every route of the table.
func operationGroups() []operationGroup {
	return []operationGroup{
		{"sessions", sessionOperations()},
		{"runs", []operation{
			{pattern: "POST /run", id: "run", summary: "Run one turn and answer with its events", params: []string{"detach", "provenance"}, body: "RunRequest", answer: "[Event]"},
			{pattern: "POST /run_sse", id: "runSSE", summary: "Run one turn and stream its events; a failed run ends with {\"error\", \"errorCode\"}", params: []string{"detach", "eventIds", "provenance", "lastEventID"}, body: "RunRequest", answer: "text/event-stream:Event"},
		}},
		{"artifacts", artifactOperations()},
		{"apps", []operation{
			{pattern: "GET /list-apps", id: "listApps", summary: "List apps", params: []string{"detailed"}, answer: "AppList"},
			{pattern: "GET /apps/{app}/app-info", id: "getAppInfo", summary: "Describe the LLM agents of an app", answer: "AppInfo"},
			{pattern: "GET /apps/{app}/diagnostics", id: "getDiagnostics", summary: "Report the problems of an app's files", answer: "AppStatus"},
			{pattern: "POST /apps/{app}/preview", id: "previewRequest", summary: "Show the request that a model would get", body: "PreviewRequest", answer: "Preview"},
		}},
		{"server", serverOperations()},
		{"developer", developerOperations()},
	}
}

func sessionOperations() []operation {
	const sessions = "/apps/{app}/users/{user}/sessions"
	return []operation{
		{pattern: "GET " + sessions, id: "listSessions", summary: "List sessions without their events", params: []string{"pageSize", "pageToken"}, answer: "[Session]"},
		{pattern: "POST " + sessions, id: "createSession", summary: "Create a session", params: []string{"provenance"}, body: "CreateSessionRequest", answer: "Session"},
		{pattern: "GET " + sessions + "/{session}", id: "getSession", summary: "Get a session with its events", params: []string{"provenance"}, answer: "Session"},
		{pattern: "POST " + sessions + "/{session}", id: "createNamedSession", summary: "Create a session with this id; prefer createSession", params: []string{"provenance"}, body: "CreateNamedSessionRequest", answer: "Session"},
		{pattern: "PATCH " + sessions + "/{session}", id: "updateSession", summary: "Change the state", params: []string{"provenance"}, body: "UpdateSessionRequest", answer: "Session"},
		{pattern: "DELETE " + sessions + "/{session}", id: "deleteSession", summary: "Delete a session with its artifacts"},
		{pattern: "POST " + sessions + "/{session}/rewind", id: "rewindSession", summary: "Undo the end of a session", params: []string{"provenance"}, body: "RewindRequest", answer: "RewindAnswer"},
		{pattern: "PATCH /apps/{app}/users/{user}/memory", id: "updateMemory", summary: "Add a session to the user's memory", body: "UpdateMemoryRequest"},
	}
}

func artifactOperations() []operation {
	const artifacts = "/apps/{app}/users/{user}/sessions/{session}/artifacts"
	return []operation{
		{pattern: "GET " + artifacts, id: "listArtifacts", summary: "List names", answer: "[string]"},
		{pattern: "POST " + artifacts, id: "saveArtifact", summary: "Save a new version", body: "SaveArtifactRequest", answer: "ArtifactVersion"},
		{pattern: "GET " + artifacts + "/{name...}", id: "getArtifact", summary: "Get an artifact or its versions; the name may have slashes", params: []string{"version"}, answer: "ArtifactAnswer"},
		{pattern: "DELETE " + artifacts + "/{name...}", id: "deleteArtifact", summary: "Delete an artifact"},
	}
}

func serverOperations() []operation {
	return []operation{
		{pattern: "GET /{$}", id: "getPage", summary: "The page for authors of apps", answer: "text/html"},
		{pattern: "GET /ui/{file}", id: "getPageFile", summary: "A file of the pages", answer: "text/plain"},
		{pattern: "GET /docs", id: "getDocs", summary: "This document as a page", answer: "text/html"},
		{pattern: "GET /openapi.json", id: "getOpenAPI", summary: "This document", answer: "AnyObject"},
		{pattern: "GET /health", id: "getHealth", summary: "Liveness", answer: "Health"},
		{pattern: "GET /livez", id: "getLiveness", summary: "Liveness", answer: "Health"},
		{pattern: "GET /readyz", id: "getReadiness", summary: "Readiness", answer: "Readiness", altStatus: "503"},
		{pattern: "GET /version", id: "getVersion", summary: "The versions of the server and of Go", answer: "Version"},
		{pattern: "POST /-/reload", id: "reload", summary: "Load changed files now", answer: "Reload", altStatus: "409"},
		{pattern: "GET /-/changes", id: "streamChanges", summary: "Stream the status of all apps", answer: "text/event-stream:Changes"},
		{pattern: "GET /metrics", id: "getMetrics", summary: "Metrics for Prometheus", answer: "text/plain"},
		{pattern: "GET /dev-ui", id: "redirectToDevUI", summary: "Redirect to ADK's web client", answer: "307"},
		{pattern: "GET /dev-ui/config", id: "getDevUIConfig", summary: "The logo of ADK's web client", answer: "AnyObject"},
		{pattern: "GET /dev-ui/assets/config/runtime-config.json", id: "getDevUIRuntimeConfig", summary: "The settings of ADK's web client", answer: "AnyObject"},
		{pattern: "GET /dev-ui/{file...}", id: "getDevUIFile", summary: "A file of ADK's web client", answer: "text/plain"},
	}
}

// developerOperations are the paths of [Server.devRoutes], those below an app
// without their two prefixes.
func developerOperations() []operation {
	return []operation{
		{pattern: "GET /debug/trace/{event}", id: "getEventTrace", summary: "The attributes of an event's span", answer: "AnyObject"},
		{pattern: "GET /debug/trace/session/{session}", id: "getSessionTrace", summary: "The spans of a session's runs", answer: "[Span]"},
		{pattern: "POST /builder/save", id: "saveFiles", summary: "Save files of an app, with --dev", params: []string{"tmp"}, body: "multipart/form-data:BuilderUpload", answer: "boolean"},
		{pattern: "GET /builder/app/{app}", id: "getAppFile", summary: "A file of an app", params: []string{"filePath", "tmp"}, answer: "application/x-yaml"},
		{pattern: "POST /builder/app/{app}/cancel", id: "cancelAppDraft", summary: "Drop the draft of an app", answer: "boolean"},
		{pattern: "GET /config/telemetry", id: "getTelemetry", summary: "Whether usage is reported: never", answer: "AnyObject"},
		{pattern: "POST /config/telemetry", id: "setTelemetry", summary: "The same; nothing is changed", answer: "AnyObject"},

		{pattern: "GET …/build_graph", id: "getBuildGraph", summary: "The tree of agents", answer: "AnyObject"},
		{pattern: "GET …/build_graph_image", id: "getBuildGraphImages", summary: "Drawings of agents in Graphviz's language", params: []string{"darkMode", "node"}, answer: "AnyObject"},
		{pattern: "GET …/graph", id: "getGraph", summary: "A drawing of the app", params: []string{"darkMode"}, answer: "AnyObject"},
		{pattern: "GET …/users/{user}/sessions/{session}/events/{event}/graph", id: "getEventGraph", summary: "A drawing that marks an event's agent", params: []string{"darkMode"}, answer: "AnyObject"},
		{pattern: "GET …/debug/trace/{event}", id: "getAppEventTrace", summary: "The attributes of an event's span", answer: "AnyObject"},
		{pattern: "GET …/debug/trace/session/{session}", id: "getAppSessionTrace", summary: "The spans of a session's runs", answer: "[Span]"},
		{pattern: "GET …/builder", id: "getBuilderFile", summary: "A file of the app", params: []string{"filePath", "tmp"}, answer: "application/x-yaml"},
		{pattern: "POST …/builder/save", id: "saveBuilderFiles", summary: "Save files of the app, with --dev", params: []string{"tmp"}, body: "multipart/form-data:BuilderUpload", answer: "boolean"},
		{pattern: "POST …/builder/cancel", id: "cancelBuilderDraft", summary: "Drop the draft of the app", answer: "boolean"},
		{pattern: "GET …/tests", id: "listTests", summary: "Recorded tests of the app's folder", answer: "[string]"},
		{pattern: "GET …/tests/{name}", id: "getTest", summary: "A recorded test", answer: "any"},
		{pattern: "PUT …/tests/{name}", id: "saveTest", answer: notSupported},
		{pattern: "DELETE …/tests/{name}", id: "deleteTest", answer: notSupported},
		{pattern: "POST …/tests/rebuild", id: "rebuildTests", answer: notSupported},
		{pattern: "POST …/tests/run", id: "runTests", answer: notSupported},

		{pattern: "GET …/metrics-info", id: "listEvalMetrics", summary: "Metrics of evaluations: none", answer: "AnyObject"},
		{pattern: "GET …/eval_sets", id: "listEvalSetsV1", summary: "Eval sets of the app's folder", answer: "[string]"},
		{pattern: "GET …/eval-sets", id: "listEvalSets", summary: "Eval sets of the app's folder", answer: "AnyObject"},
		{pattern: "GET …/eval_sets/{name}", id: "getEvalSetV1", summary: "An eval set", answer: "AnyObject"},
		{pattern: "GET …/eval-sets/{name}", id: "getEvalSet", summary: "An eval set", answer: "AnyObject"},
		{pattern: "GET …/eval_sets/{name}/evals", id: "listEvalCases", summary: "The cases of an eval set", answer: "[string]"},
		{pattern: "GET …/eval_sets/{name}/evals/{case}", id: "getEvalCaseV1", summary: "A case", answer: "AnyObject"},
		{pattern: "GET …/eval-sets/{name}/eval-cases/{case}", id: "getEvalCase", summary: "A case", answer: "AnyObject"},
		{pattern: "GET …/eval_results", id: "listEvalResultsV1", summary: "Results of evaluations", answer: "[string]"},
		{pattern: "GET …/eval-results", id: "listEvalResults", summary: "Results of evaluations", answer: "AnyObject"},
		{pattern: "GET …/eval_results/{name}", id: "getEvalResultV1", summary: "A result", answer: "AnyObject"},
		{pattern: "GET …/eval-results/{name}", id: "getEvalResult", summary: "A result", answer: "AnyObject"},
		{pattern: "POST …/eval-sets", id: "createEvalSet", answer: notSupported},
		{pattern: "POST …/eval_sets/{name}", id: "createEvalSetV1", answer: notSupported},
		{pattern: "DELETE …/eval-sets/{name}", id: "deleteEvalSet", answer: notSupported},
		{pattern: "DELETE …/eval_sets/{name}", id: "deleteEvalSetV1", answer: notSupported},
		{pattern: "POST …/eval-sets/{name}/add-session", id: "addEvalSession", answer: notSupported},
		{pattern: "POST …/eval_sets/{name}/add_session", id: "addEvalSessionV1", answer: notSupported},
		{pattern: "PUT …/eval-sets/{name}/eval-cases/{case}", id: "saveEvalCase", answer: notSupported},
		{pattern: "PUT …/eval_sets/{name}/evals/{case}", id: "saveEvalCaseV1", answer: notSupported},
		{pattern: "DELETE …/eval-sets/{name}/eval-cases/{case}", id: "deleteEvalCase", answer: notSupported},
		{pattern: "DELETE …/eval_sets/{name}/evals/{case}", id: "deleteEvalCaseV1", answer: notSupported},
		{pattern: "POST …/eval-sets/{name}/run", id: "runEval", answer: notSupported},
		{pattern: "POST …/eval_sets/{name}/run_eval", id: "runEvalV1", answer: notSupported},
	}
}
