package server

import (
	"net/http"
	"strings"
)

// devRoutes lists the developer routes used by ADK's web client. Each is served below
// /dev/apps/{app}, as in ADK 2, and below /apps/{app}, as in ADK 1 and its Go and Java
// servers.
func (s *Server) devRoutes() []route {
	table := []route{
		{"GET /debug/trace/{event}", s.handleEventTrace},
		{"GET /debug/trace/session/{session}", s.handleSessionTrace},
		{"POST /builder/save", s.handleBuilderSaveAny},
		{"GET /builder/app/{app}", s.handleBuilderFile},
		{"POST /builder/app/{app}/cancel", s.handleBuilderCancel},
		{"GET /config/telemetry", s.handleTelemetry},
		{"POST /config/telemetry", s.handleTelemetry},
	}
	for _, r := range append(s.devAppRoutes(), s.evalRoutes()...) {
		method, tail, _ := strings.Cut(r.pattern, " ")
		for _, prefix := range []string{"/dev/apps/{app}", "/apps/{app}"} {
			table = append(table, route{method + " " + prefix + tail, r.handle})
		}
	}
	return table
}

func (s *Server) devAppRoutes() []route {
	return []route{
		{"GET /build_graph", s.handleBuildGraph},
		{"GET /build_graph_image", s.handleGraphImages},
		{"GET /graph", s.handleGraph},
		{"GET /users/{user}/sessions/{session}/events/{event}/graph", s.handleEventGraph},
		{"GET /debug/trace/{event}", s.handleEventTrace},
		{"GET /debug/trace/session/{session}", s.handleSessionTrace},
		{"GET /builder", s.handleBuilderFile},
		{"POST /builder/save", s.handleBuilderSave},
		{"POST /builder/cancel", s.handleBuilderCancel},

		{"GET /tests", s.handleTests},
		{"GET /tests/{name}", s.handleTest},
		{"PUT /tests/{name}", rejectWith(errNoRecordedTests)},
		{"DELETE /tests/{name}", rejectWith(errNoRecordedTests)},
		{"POST /tests/rebuild", rejectWith(errNoRecordedTests)},
		{"POST /tests/run", rejectWith(errNoRecordedTests)},
	}
}

func (s *Server) evalRoutes() []route {
	table := []route{
		{"GET /metrics-info", s.handleMetrics},
		{"GET /eval_sets", s.fileListHandler(".", evalSetSuffix, "")},
		{"GET /eval-sets", s.fileListHandler(".", evalSetSuffix, "evalSetIds")},
		{"GET /eval_sets/{name}/evals", s.handleEvalCases},
		{"GET /eval_sets/{name}/evals/{case}", s.handleEvalCase},
		{"GET /eval-sets/{name}/eval-cases/{case}", s.handleEvalCase},
		{"GET /eval_results", s.fileListHandler(evalHistory, evalResultSuffix, "")},
		{"GET /eval-results", s.fileListHandler(evalHistory, evalResultSuffix, "evalResultIds")},
		{"GET /eval_results/{name}", s.jsonFileHandler(evalHistory, evalResultSuffix, "Eval result not found")},
		{"GET /eval-results/{name}", s.jsonFileHandler(evalHistory, evalResultSuffix, "Eval result not found")},
	}
	for _, pattern := range []string{
		"POST /eval-sets", "POST /eval_sets/{name}", "DELETE /eval-sets/{name}", "DELETE /eval_sets/{name}",
		"POST /eval-sets/{name}/add-session", "POST /eval_sets/{name}/add_session",
		"PUT /eval-sets/{name}/eval-cases/{case}", "PUT /eval_sets/{name}/evals/{case}",
		"DELETE /eval-sets/{name}/eval-cases/{case}", "DELETE /eval_sets/{name}/evals/{case}",
		"POST /eval-sets/{name}/run", "POST /eval_sets/{name}/run_eval",
	} {
		table = append(table, route{pattern, rejectWith(errNoEvals)})
	}
	for _, path := range []string{"/eval_sets/{name}", "/eval-sets/{name}"} {
		table = append(table, route{"GET " + path, s.handleEvalSet})
	}
	return table
}

// handleTelemetry reports that telemetry is off, whatever the user of ADK's web client
// chose.
func (s *Server) handleTelemetry(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, map[string]bool{"telemetry": false})
}
