package devui

import (
	"agenthost/pkg/server"
)

// devUIRoutes are the routes for ADK's web client: a built bundle if there is one, and what it
// reads.
func (s *handlers) devUIRoutes() []server.Route {
	return []server.Route{
		{Method: "GET", Pattern: "/dev-ui", Disabled: s.opts.UI == nil, Handler: redirectToDevUI, Doc: server.Doc{Tag: "server", ID: "redirectToDevUI", Summary: "Redirect to ADK's web client", Answer: "307"}},
		{Method: "GET", Pattern: "/dev-ui/config", Disabled: s.opts.UI == nil, Handler: s.handleDevUIConfig, Doc: server.Doc{Tag: "server", ID: "getDevUIConfig", Summary: "Logo of ADK's web client", Answer: "AnyObject"}},
		{Method: "GET", Pattern: "/dev-ui/assets/config/runtime-config.json", Disabled: s.opts.UI == nil, Handler: handleRuntimeConfig, Doc: server.Doc{Tag: "server", ID: "getDevUIRuntimeConfig", Summary: "Settings of ADK's web client", Answer: "AnyObject"}},
		{Method: "GET", Pattern: "/dev-ui/" + audioProcessor, Disabled: s.opts.UI == nil, Handler: s.handleAudioProcessor, Doc: server.Doc{Tag: "server", ID: "getDevUIAudioProcessor", Summary: "Recorder of ADK's web client, at 16 kHz", Answer: "text/plain"}},
		{Method: "GET", Pattern: "/dev-ui/{file...}", Disabled: s.opts.UI == nil, Handler: s.handleDevUIFile, Doc: server.Doc{Tag: "server", ID: "getDevUIFile", Summary: "File of ADK's web client", Answer: "text/plain"}},
		{Method: "GET", Pattern: "/debug/trace/{event}", Handler: s.handleEventTrace, Doc: server.Doc{Tag: "developer", ID: "getEventTrace", Summary: "Get the span attributes of an event", Answer: "AnyObject"}},
		{Method: "GET", Pattern: "/debug/trace/session/{session}", Handler: s.handleSessionTrace, Doc: server.Doc{Tag: "developer", ID: "getSessionTrace", Summary: "List the spans of a session", Answer: "[Span]"}},
		{Method: "POST", Pattern: "/builder/save", Handler: s.handleBuilderSaveAny, Doc: server.Doc{Tag: "developer", ID: "saveFiles", Summary: "Save files of an app; requires --dev", Params: []string{"tmp"}, Body: "multipart/form-data:BuilderUpload", Answer: "boolean"}},
		{Method: "GET", Pattern: "/builder/app/{app}", Handler: s.handleBuilderFile, Doc: server.Doc{Tag: "developer", ID: "getAppFile", Summary: "Get a file of an app", Params: []string{"filePath", "tmp"}, Answer: "application/x-yaml"}},
		{Method: "POST", Pattern: "/builder/app/{app}/cancel", Handler: s.handleBuilderCancel, Doc: server.Doc{Tag: "developer", ID: "cancelAppDraft", Summary: "Discard the draft of an app", Answer: "boolean"}},
		{Method: "GET", Pattern: "/config/telemetry", Handler: s.handleTelemetry, Doc: server.Doc{Tag: "developer", ID: "getTelemetry", Summary: "Get the telemetry setting: always off", Answer: "AnyObject"}},
		{Method: "POST", Pattern: "/config/telemetry", Handler: s.handleTelemetry, Doc: server.Doc{Tag: "developer", ID: "setTelemetry", Summary: "Get the telemetry setting; the request changes nothing", Answer: "AnyObject"}},
		{Method: "GET", Pattern: "…/build_graph", Handler: s.handleBuildGraph, Doc: server.Doc{Tag: "developer", ID: "getBuildGraph", Summary: "Get the agent tree", Answer: "AnyObject"}},
		{Method: "GET", Pattern: "…/build_graph_image", Handler: s.handleGraphImages, Doc: server.Doc{Tag: "developer", ID: "getBuildGraphImages", Summary: "Get drawings of agents in the DOT language", Params: []string{"darkMode", "node"}, Answer: "AnyObject"}},
		{Method: "GET", Pattern: "…/graph", Handler: s.handleGraph, Doc: server.Doc{Tag: "developer", ID: "getGraph", Summary: "Get a drawing of the app", Params: []string{"darkMode"}, Answer: "AnyObject"}},
		{Method: "GET", Pattern: "…/users/{user}/sessions/{session}/events/{event}/graph", Handler: s.handleEventGraph, Doc: server.Doc{Tag: "developer", ID: "getEventGraph", Summary: "Get a drawing that highlights an event", Params: []string{"darkMode"}, Answer: "AnyObject"}},
		{Method: "GET", Pattern: "…/debug/trace/{event}", Handler: s.handleEventTrace, Doc: server.Doc{Tag: "developer", ID: "getAppEventTrace", Summary: "Get the span attributes of an event", Answer: "AnyObject"}},
		{Method: "GET", Pattern: "…/debug/trace/session/{session}", Handler: s.handleSessionTrace, Doc: server.Doc{Tag: "developer", ID: "getAppSessionTrace", Summary: "List the spans of a session", Answer: "[Span]"}},
		{Method: "GET", Pattern: "…/users/{user}/sessions/{session}/invocations/{invocation}/trace", Handler: s.handleTurnTrace, Doc: server.Doc{Tag: "developer", ID: "getTurnTrace", Summary: "List the agents, model calls and tool calls of an invocation, with times, tokens and costs", Answer: "TurnTrace"}},
		{Method: "GET", Pattern: "…/builder", Handler: s.handleBuilderFile, Doc: server.Doc{Tag: "developer", ID: "getBuilderFile", Summary: "Get a file of the app", Params: []string{"filePath", "tmp"}, Answer: "application/x-yaml"}},
		{Method: "POST", Pattern: "…/builder/save", Handler: s.handleBuilderSave, Doc: server.Doc{Tag: "developer", ID: "saveBuilderFiles", Summary: "Save files of the app; requires --dev", Params: []string{"tmp"}, Body: "multipart/form-data:BuilderUpload", Answer: "boolean"}},
		{Method: "POST", Pattern: "…/builder/cancel", Handler: s.handleBuilderCancel, Doc: server.Doc{Tag: "developer", ID: "cancelBuilderDraft", Summary: "Discard the draft of the app", Answer: "boolean"}},
		{Method: "GET", Pattern: "…/tests", Handler: s.handleTests, Doc: server.Doc{Tag: "developer", ID: "listTests", Summary: "List the recorded tests in the app's folder", Answer: "[string]"}},
		{Method: "GET", Pattern: "…/tests/{name}", Handler: s.handleTest, Doc: server.Doc{Tag: "developer", ID: "getTest", Summary: "Get a recorded test", Answer: "any"}},
		{Method: "PUT", Pattern: "…/tests/{name}", Handler: rejectWith(errNoRecordedTests), Doc: server.Doc{Tag: "developer", ID: "saveTest", Answer: "501"}},
		{Method: "DELETE", Pattern: "…/tests/{name}", Handler: rejectWith(errNoRecordedTests), Doc: server.Doc{Tag: "developer", ID: "deleteTest", Answer: "501"}},
		{Method: "POST", Pattern: "…/tests/rebuild", Handler: rejectWith(errNoRecordedTests), Doc: server.Doc{Tag: "developer", ID: "rebuildTests", Answer: "501"}},
		{Method: "POST", Pattern: "…/tests/run", Handler: rejectWith(errNoRecordedTests), Doc: server.Doc{Tag: "developer", ID: "runTests", Answer: "501"}},
	}
}
