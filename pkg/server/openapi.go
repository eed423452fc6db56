package server

import (
	_ "embed"
	"net/http"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// openAPIBase is the OpenAPI document without its paths.
//
//go:embed openapi.yaml
var openAPIBase []byte

// encodeOpenAPI returns the OpenAPI document of the patterns of all routes. It does not
// depend on the options of the server, because it is public.
func encodeOpenAPI(patterns []string) ([]byte, error) {
	var doc map[string]any
	if err := yaml.Unmarshal(openAPIBase, &doc); err != nil {
		return nil, err
	}
	described := map[string]pathItem{}
	for _, g := range operationGroups() {
		for _, op := range g.operations {
			for _, item := range op.routeItems(g.tag) {
				described[item.pattern] = item
			}
		}
	}
	paths := map[string]map[string]any{}
	for _, pattern := range patterns {
		method, path := splitPattern(pattern)
		if paths[path] == nil {
			paths[path] = map[string]any{}
		}
		paths[path][strings.ToLower(method)] = described[pattern].json
	}
	doc["paths"] = paths
	return encodeJSON(doc)
}

// handleOpenAPI serves the document.
func (s *Server) handleOpenAPI(w http.ResponseWriter, _ *http.Request) error {
	text, err := s.openAPI()
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-cache")
	writeRawJSON(w, http.StatusOK, text)
	return nil
}

// splitPattern returns the method and the path of a route in OpenAPI's notation.
func splitPattern(pattern string) (method, path string) {
	method, path, _ = strings.Cut(pattern, " ")
	return method, strings.NewReplacer("{$}", "", "...}", "}").Replace(path)
}

// A pathItem is the operation of one route.
type pathItem struct {
	pattern string
	json    map[string]any
}

// routeItems returns an item for each of the operation's routes. Developer operations
// have two.
func (op operation) routeItems(tag string) []pathItem {
	if !strings.Contains(op.pattern, "…") {
		return []pathItem{{op.pattern, op.encodeOperation(op.pattern, tag)}}
	}
	first, older := strings.Replace(op.pattern, "…", "/dev/apps/{app}", 1), strings.Replace(op.pattern, "…", "/apps/{app}", 1)
	old := op
	old.id += "Old"
	items := []pathItem{{first, op.encodeOperation(first, tag)}, {older, old.encodeOperation(older, tag)}}
	items[1].json["deprecated"] = true
	return items
}

func (op operation) encodeOperation(pattern, tag string) map[string]any {
	o := map[string]any{"operationId": op.id, "summary": op.summary, "tags": []string{tag}, "responses": op.encodeResponses()}
	if op.answer == notSupported {
		o["summary"] = "Not supported by this server"
	}
	if isPublicRoute(pattern) {
		o["security"] = []any{} // no token needed
	}
	if params := op.encodeParameters(pattern); len(params) > 0 {
		o["parameters"] = params
	}
	if op.body != "" {
		o["requestBody"] = map[string]any{"content": mediaContent(op.body)}
	}
	return o
}

var pathParam = regexp.MustCompile(`\{(\w+)\}`)

func (op operation) encodeParameters(pattern string) []any {
	var all []any
	_, path := splitPattern(pattern)
	for _, m := range pathParam.FindAllStringSubmatch(path, -1) {
		all = append(all, map[string]any{"name": m[1], "in": "path", "required": true, "schema": map[string]any{"type": "string"}})
	}
	for _, name := range op.params {
		all = append(all, componentRef("parameters", name))
	}
	return all
}

func (op operation) encodeResponses() map[string]any {
	all := map[string]any{"default": componentRef("responses", "Error")}
	switch op.answer {
	case notSupported:
		return map[string]any{notSupported: componentRef("responses", "Error")}
	case "307":
		all["307"] = map[string]any{"description": "Redirect"}
		return all
	}
	for _, status := range []string{"200", op.altStatus} {
		if status != "" {
			all[status] = map[string]any{"description": "The answer.", "content": mediaContent(op.answer)}
		}
	}
	return all
}

// mediaContent returns the content object of an operation's schema.
func mediaContent(schema string) map[string]any {
	media, inner, text := strings.Cut(schema, ":")
	switch {
	case !strings.Contains(media, "/"):
		return map[string]any{"application/json": map[string]any{"schema": schemaFor(schema)}}
	case strings.HasPrefix(media, "multipart/"):
		return map[string]any{media: map[string]any{"schema": schemaFor(inner)}}
	case text:
		return map[string]any{media: map[string]any{"schema": map[string]any{
			"type": "string", "contentMediaType": "application/json", "contentSchema": schemaFor(inner),
			"description": "Each `data:` line is a " + inner + ".",
		}}}
	default:
		return map[string]any{media: map[string]any{"schema": map[string]any{"type": "string"}}}
	}
}

func schemaFor(name string) map[string]any {
	switch item, isList := strings.CutPrefix(name, "["); {
	case isList:
		return map[string]any{"type": "array", "items": schemaFor(strings.TrimSuffix(item, "]"))}
	case name == "":
		return map[string]any{"type": "null"}
	case name == "any":
		return map[string]any{}
	case name == "string", name == "boolean":
		return map[string]any{"type": name}
	default:
		return componentRef("schemas", name)
	}
}

func componentRef(kind, name string) map[string]any {
	return map[string]any{"$ref": "#/components/" + kind + "/" + name}
}

// An operation is the OpenAPI description of a route.
type operation struct {
	// pattern is the route's pattern. In developer routes … is the prefix of the app.
	pattern string
	// id is unique: client generators name functions after it.
	id, summary string
	// params names query parameters and headers in openapi.yaml.
	params []string
	// body and answer are the schemas of the request and the response. [X] is a list,
	// MEDIA/TYPE is text, and MEDIA/TYPE:X is text that contains X. An empty answer is
	// null.
	body, answer string
	// altStatus is another status with the same response.
	altStatus string
}

// An operationGroup holds the operations of a tag in openapi.yaml.
type operationGroup struct {
	tag        string
	operations []operation
}

// notSupported is the answer of a route that always responds with 501.
const notSupported = "501"

// operationGroups describes every route of the server.
func operationGroups() []operationGroup {
	return []operationGroup{
		{"sessions", sessionOperations()},
		{"runs", []operation{
			{pattern: "POST /run", id: "run", summary: "Run one turn and answer with its events", params: []string{"detach", "provenance"}, body: "RunRequest", answer: "[Event]"},
			{pattern: "POST /run_sse", id: "runSSE", summary: "Run one turn and stream its events; a failed run ends with {\"error\", \"errorCode\"}", params: []string{"detach", "eventIds", "provenance", "lastEventID"}, body: "RunRequest", answer: "text/event-stream:Event"},
			{pattern: "GET /run_live", id: "runLive", summary: "Hold a live conversation on a WebSocket, see docs/live.md; 426 without an upgrade", params: []string{"liveApp", "liveUser", "liveSession"}, answer: "Event"},
			{pattern: "POST /run_live/ticket", id: "createLiveTicket", summary: "Create a ticket that opens one live conversation within a minute", params: []string{"liveApp", "liveUser", "liveSession"}, answer: "LiveTicket"},
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
		{pattern: "GET /{$}", id: "getPage", summary: "Page for app authors", answer: "text/html"},
		{pattern: "GET /ui/{file}", id: "getPageFile", summary: "File of a page", answer: "text/plain"},
		{pattern: "GET /docs", id: "getDocs", summary: "This document as a web page", answer: "text/html"},
		{pattern: "GET /openapi.json", id: "getOpenAPI", summary: "This document", answer: "AnyObject"},
		{pattern: "GET /oauth/callback", id: "receiveAuthorization", summary: "Receive the answer of an authorization server", answer: "text/html", altStatus: "400"},
		{pattern: "POST /oauth/callback", id: "confirmAuthorization", summary: "Confirm the answer of an authorization server", answer: "text/html", altStatus: "400"},
		{pattern: "GET /health", id: "getHealth", summary: "Liveness", answer: "Health"},
		{pattern: "GET /livez", id: "getLiveness", summary: "Liveness", answer: "Health"},
		{pattern: "GET /readyz", id: "getReadiness", summary: "Readiness", answer: "Readiness", altStatus: "503"},
		{pattern: "GET /version", id: "getVersion", summary: "Versions of the server and of Go", answer: "Version"},
		{pattern: "POST /-/reload", id: "reload", summary: "Reload changed files now", answer: "Reload", altStatus: "409"},
		{pattern: "GET /-/changes", id: "streamChanges", summary: "Stream the status of all apps", answer: "text/event-stream:Changes"},
		{pattern: "GET /-/evals/{app}", id: "getEvalOverview", summary: "List the eval sets and results of an app", answer: "AnyObject"},
		{pattern: "GET /-/evals/{app}/sets/{file...}", id: "getEvalSetView", summary: "List the cases of an eval set by its file", answer: "AnyObject"},
		{pattern: "POST /-/evals/{app}/sets/{file...}", id: "followEvalRun", summary: "Run an eval set by its file, and stream the scores of its cases; requires --dev", body: "AnyObject", answer: "text/event-stream:AnyObject"},
		{pattern: "GET /-/evals/{app}/results/{name}", id: "getEvalResultView", summary: "Get the scores of an eval result", answer: "AnyObject"},
		{pattern: "GET /-/evals/{app}/results/{name}/cases/{index}", id: "getEvalCaseResult", summary: "Get a case of an eval result with its conversation", answer: "AnyObject"},
		{pattern: "GET /metrics", id: "getMetrics", summary: "Prometheus metrics", answer: "text/plain"},
		{pattern: "GET /dev-ui", id: "redirectToDevUI", summary: "Redirect to ADK's web client", answer: "307"},
		{pattern: "GET /dev-ui/config", id: "getDevUIConfig", summary: "Logo of ADK's web client", answer: "AnyObject"},
		{pattern: "GET /dev-ui/assets/config/runtime-config.json", id: "getDevUIRuntimeConfig", summary: "Settings of ADK's web client", answer: "AnyObject"},
		{pattern: "GET /dev-ui/assets/audio-processor.js", id: "getDevUIAudioProcessor", summary: "Recorder of ADK's web client, at 16 kHz", answer: "text/plain"},
		{pattern: "GET /dev-ui/{file...}", id: "getDevUIFile", summary: "File of ADK's web client", answer: "text/plain"},
	}
}

// developerOperations describes the routes of [Server.devRoutes]. Routes of an app have
// no prefix.
func developerOperations() []operation {
	return []operation{
		{pattern: "GET /debug/trace/{event}", id: "getEventTrace", summary: "Get the span attributes of an event", answer: "AnyObject"},
		{pattern: "GET /debug/trace/session/{session}", id: "getSessionTrace", summary: "List the spans of a session", answer: "[Span]"},
		{pattern: "POST /builder/save", id: "saveFiles", summary: "Save files of an app; requires --dev", params: []string{"tmp"}, body: "multipart/form-data:BuilderUpload", answer: "boolean"},
		{pattern: "GET /builder/app/{app}", id: "getAppFile", summary: "Get a file of an app", params: []string{"filePath", "tmp"}, answer: "application/x-yaml"},
		{pattern: "POST /builder/app/{app}/cancel", id: "cancelAppDraft", summary: "Discard the draft of an app", answer: "boolean"},
		{pattern: "GET /config/telemetry", id: "getTelemetry", summary: "Get the telemetry setting: always off", answer: "AnyObject"},
		{pattern: "POST /config/telemetry", id: "setTelemetry", summary: "Get the telemetry setting; the request changes nothing", answer: "AnyObject"},

		{pattern: "GET …/build_graph", id: "getBuildGraph", summary: "Get the agent tree", answer: "AnyObject"},
		{pattern: "GET …/build_graph_image", id: "getBuildGraphImages", summary: "Get drawings of agents in the DOT language", params: []string{"darkMode", "node"}, answer: "AnyObject"},
		{pattern: "GET …/graph", id: "getGraph", summary: "Get a drawing of the app", params: []string{"darkMode"}, answer: "AnyObject"},
		{pattern: "GET …/users/{user}/sessions/{session}/events/{event}/graph", id: "getEventGraph", summary: "Get a drawing that highlights an event", params: []string{"darkMode"}, answer: "AnyObject"},
		{pattern: "GET …/debug/trace/{event}", id: "getAppEventTrace", summary: "Get the span attributes of an event", answer: "AnyObject"},
		{pattern: "GET …/debug/trace/session/{session}", id: "getAppSessionTrace", summary: "List the spans of a session", answer: "[Span]"},
		{pattern: "GET …/builder", id: "getBuilderFile", summary: "Get a file of the app", params: []string{"filePath", "tmp"}, answer: "application/x-yaml"},
		{pattern: "POST …/builder/save", id: "saveBuilderFiles", summary: "Save files of the app; requires --dev", params: []string{"tmp"}, body: "multipart/form-data:BuilderUpload", answer: "boolean"},
		{pattern: "POST …/builder/cancel", id: "cancelBuilderDraft", summary: "Discard the draft of the app", answer: "boolean"},
		{pattern: "GET …/tests", id: "listTests", summary: "List the recorded tests in the app's folder", answer: "[string]"},
		{pattern: "GET …/tests/{name}", id: "getTest", summary: "Get a recorded test", answer: "any"},
		{pattern: "PUT …/tests/{name}", id: "saveTest", answer: notSupported},
		{pattern: "DELETE …/tests/{name}", id: "deleteTest", answer: notSupported},
		{pattern: "POST …/tests/rebuild", id: "rebuildTests", answer: notSupported},
		{pattern: "POST …/tests/run", id: "runTests", answer: notSupported},

		{pattern: "GET …/metrics-info", id: "listEvalMetrics", summary: "List evaluation metrics", answer: "AnyObject"},
		{pattern: "GET …/eval_sets", id: "listEvalSetsV1", summary: "List the eval sets in the app's folder", answer: "[string]"},
		{pattern: "GET …/eval-sets", id: "listEvalSets", summary: "List the eval sets in the app's folder", answer: "AnyObject"},
		{pattern: "GET …/eval_sets/{name}", id: "getEvalSetV1", summary: "Get an eval set", answer: "AnyObject"},
		{pattern: "GET …/eval-sets/{name}", id: "getEvalSet", summary: "Get an eval set", answer: "AnyObject"},
		{pattern: "GET …/eval_sets/{name}/evals", id: "listEvalCases", summary: "List the cases of an eval set", answer: "[string]"},
		{pattern: "GET …/eval-sets/{name}/eval-cases", id: "listEvalCasesV2", summary: "List the cases of an eval set", answer: "[string]"},
		{pattern: "GET …/eval_sets/{name}/evals/{case}", id: "getEvalCaseV1", summary: "Get an eval case", answer: "AnyObject"},
		{pattern: "GET …/eval-sets/{name}/eval-cases/{case}", id: "getEvalCase", summary: "Get an eval case", answer: "AnyObject"},
		{pattern: "GET …/eval_results", id: "listEvalResultsV1", summary: "List eval results", answer: "[string]"},
		{pattern: "GET …/eval-results", id: "listEvalResults", summary: "List eval results", answer: "AnyObject"},
		{pattern: "GET …/eval_results/{name}", id: "getEvalResultV1", summary: "Get an eval result", answer: "AnyObject"},
		{pattern: "GET …/eval-results/{name}", id: "getEvalResult", summary: "Get an eval result", answer: "AnyObject"},
		{pattern: "POST …/eval-sets", id: "createEvalSet", summary: "Create an eval set; requires --dev", body: "AnyObject", answer: "AnyObject"},
		{pattern: "POST …/eval_sets/{name}", id: "createEvalSetV1", summary: "Create an empty eval set; requires --dev"},
		{pattern: "DELETE …/eval-sets/{name}", id: "deleteEvalSet", summary: "Delete an eval set; requires --dev"},
		{pattern: "DELETE …/eval_sets/{name}", id: "deleteEvalSetV1", summary: "Delete an eval set; requires --dev"},
		{pattern: "POST …/eval-sets/{name}/add-session", id: "addEvalSession", summary: "Add a session to an eval set as a case; requires --dev", body: "AddEvalSessionRequest"},
		{pattern: "POST …/eval_sets/{name}/add_session", id: "addEvalSessionV1", summary: "Add a session to an eval set as a case; requires --dev", body: "AddEvalSessionRequest"},
		{pattern: "PUT …/eval-sets/{name}/eval-cases/{case}", id: "saveEvalCase", summary: "Change an eval case; requires --dev", body: "AnyObject"},
		{pattern: "PUT …/eval_sets/{name}/evals/{case}", id: "saveEvalCaseV1", summary: "Change an eval case; requires --dev", body: "AnyObject"},
		{pattern: "DELETE …/eval-sets/{name}/eval-cases/{case}", id: "deleteEvalCase", summary: "Delete an eval case; requires --dev"},
		{pattern: "DELETE …/eval_sets/{name}/evals/{case}", id: "deleteEvalCaseV1", summary: "Delete an eval case; requires --dev"},
		{pattern: "POST …/eval-sets/{name}/run", id: "runEval", summary: "Run cases of an eval set; requires --dev", body: "RunEvalRequest", answer: "RunEvalAnswer"},
		{pattern: "POST …/eval_sets/{name}/run_eval", id: "runEvalV1", summary: "Run cases of an eval set; requires --dev", body: "RunEvalRequest", answer: "[RunEvalResult]"},
	}
}
