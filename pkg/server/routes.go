package server

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	"agenthost/pkg/store"
)

type route struct {
	pattern string
	handle  handler
}

// registerRoutes registers the enabled routes, and the documents that describe all
// routes.
func (s *Server) registerRoutes() {
	for _, r := range slices.DeleteFunc(s.allRoutes(), s.isDisabled) {
		s.mux.HandleFunc(r.pattern, s.wrapHandler(r))
	}
	s.openAPI = sync.OnceValues(func() ([]byte, error) { return encodeOpenAPI(listPatterns(s.allRoutes())) })
	s.docsPage = sync.OnceValues(renderDocsPage)
}

// allRoutes lists every route, including those that the options disable. Each has an
// operation in openapi.go.
func (s *Server) allRoutes() []route {
	return slices.Concat(s.coreRoutes(), s.evalViewRoutes(), s.devRoutes(), s.devUIRoutes())
}

// shareTimeout gives the calls of the store by a request one timeout together. Runs, rewinds and
// imported events have one for each call, because they may be long.
func shareTimeout(handle handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		return handle(w, r.WithContext(store.ShareTimeout(r.Context())))
	}
}

func (s *Server) coreRoutes() []route {
	const sessions = "/apps/{app}/users/{user}/sessions"
	return []route{
		{"GET /{$}", s.handlePage},
		{"GET /ui/{file}", s.handlePageFile},
		{"GET /docs", s.handleDocs},
		{"GET /openapi.json", s.handleOpenAPI},
		{"GET /health", s.handleHealth},
		{"GET /livez", s.handleLive},
		{"GET /readyz", s.handleReady},
		{"GET " + CallbackPath, s.handleCallback},
		{"POST " + CallbackPath, s.handleCallback},
		{"POST /-/reload", s.handleReload},
		{"GET /-/changes", s.handleChanges},
		{"GET /version", s.handleVersion},
		{"GET /list-apps", s.handleListApps},
		{"GET /apps/{app}/diagnostics", s.handleDiagnostics},
		{"GET /apps/{app}/app-info", s.handleAppInfo},
		{"POST /apps/{app}/preview", s.handlePreview},

		{"GET " + sessions, shareTimeout(s.handleListSessions)},
		{"POST " + sessions, s.handleCreateSession},
		{"GET " + sessions + "/{session}", shareTimeout(s.handleSession)},
		{"POST " + sessions + "/{session}", shareTimeout(s.handleCreateNamedSession)},
		{"DELETE " + sessions + "/{session}", shareTimeout(s.handleDeleteSession)},
		{"PATCH " + sessions + "/{session}", shareTimeout(s.handlePatchSession)},
		{"POST " + sessions + "/{session}/rewind", s.handleRewind},
		{"PATCH /apps/{app}/users/{user}/memory", shareTimeout(s.handleMemory)},

		{"GET " + sessions + "/{session}/artifacts", s.handleListArtifacts},
		{"POST " + sessions + "/{session}/artifacts", s.handleSaveArtifact},
		{"GET " + sessions + "/{session}/artifacts/{name...}", s.handleArtifact},
		{"DELETE " + sessions + "/{session}/artifacts/{name...}", s.handleDeleteArtifact},

		{"POST /run", s.handleRun},
		{"POST /run_sse", s.handleRunSSE},
		{liveRoute, s.handleRunLive},
		{"POST /run_live/ticket", s.handleLiveTicket},

		{"GET /metrics", s.handleMetrics},
	}
}

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
		{"GET /metrics-info", s.handleEvalMetrics},
		{"GET /eval_sets", s.handleListEvalSets("")},
		{"GET /eval-sets", s.handleListEvalSets("evalSetIds")},
		{"POST /eval-sets", s.requireEvalEdits(s.handleCreateEvalSet)},
		{"POST /eval_sets/{name}", s.requireEvalEdits(s.handleCreateNamedEvalSet)},
		{"POST /eval-sets/{name}/add-session", s.requireEvalEdits(s.handleAddEvalSession)},
		{"POST /eval_sets/{name}/add_session", s.requireEvalEdits(s.handleAddEvalSession)},
		{"POST /eval-sets/{name}/run", s.requireEvaluator(s.handleRunEvalSet)},
		{"POST /eval_sets/{name}/run_eval", s.requireEvaluator(s.handleRunEval)},
		{"GET /eval_sets/{name}/evals", s.handleEvalCases},
		{"GET /eval-sets/{name}/eval-cases", s.handleEvalCases},
		{"GET /eval_results", s.handleListEvalResults("")},
		{"GET /eval-results", s.handleListEvalResults("evalResultIds")},
		{"GET /eval_results/{name}", s.handleEvalResult},
		{"GET /eval-results/{name}", s.handleEvalResult},
	}
	for _, path := range []string{"/eval_sets/{name}", "/eval-sets/{name}"} {
		table = append(table, route{"GET " + path, s.handleEvalSet}, route{"DELETE " + path, s.requireEvalEdits(s.handleDeleteEvalSet)})
	}
	for _, path := range []string{"/eval_sets/{name}/evals/{case}", "/eval-sets/{name}/eval-cases/{case}"} {
		table = append(table, route{"GET " + path, s.handleEvalCase}, route{"PUT " + path, s.requireEvalEdits(s.handleSaveEvalCase)}, route{"DELETE " + path, s.requireEvalEdits(s.handleDeleteEvalCase)})
	}
	return table
}

// evalViewRoutes are what the page's Evaluations view reads, in addition to the routes of
// ADK.
func (s *Server) evalViewRoutes() []route {
	return []route{
		{"GET /-/evals/{app}", s.handleEvalOverview},
		{"GET /-/evals/{app}/sets/{file...}", s.handleEvalSetView},
		{"POST /-/evals/{app}/sets/{file...}", s.requireEvaluator(s.handleFollowEvalRun)},
		{"GET /-/evals/{app}/results/{name}", s.handleEvalResultView},
		{"GET /-/evals/{app}/results/{name}/cases/{index}", s.handleEvalCaseResult},
	}
}

// devUIRoutes serves a built ADK Web bundle if there is one.
func (s *Server) devUIRoutes() []route {
	files := http.StripPrefix("/dev-ui/", http.FileServerFS(s.opts.UI))
	return []route{
		{"GET /dev-ui", redirectToDevUI},
		{"GET /dev-ui/config", s.handleDevUIConfig},
		{"GET /dev-ui/assets/config/runtime-config.json", func(w http.ResponseWriter, _ *http.Request) error {
			writeRawJSON(w, http.StatusOK, []byte(runtimeConfig))
			return nil
		}},
		{"GET /dev-ui/" + audioProcessor, s.handleAudioProcessor},
		{"GET /dev-ui/{file...}", func(w http.ResponseWriter, r *http.Request) error {
			if !s.isDevUIFile(r.PathValue("file")) {
				return notFoundError("Not Found")
			}
			setDevUIHeaders(w.Header())
			files.ServeHTTP(w, r)
			return nil
		}},
	}
}

// isDisabled reports whether the options disable a route.
func (s *Server) isDisabled(r route) bool {
	switch {
	case r.pattern == "GET /metrics":
		return s.opts.Metrics == nil
	default:
		return s.opts.UI == nil && strings.HasPrefix(r.pattern, "GET /dev-ui")
	}
}

// Patterns returns the patterns of the enabled routes in the syntax of [http.ServeMux].
func (s *Server) Patterns() []string {
	return listPatterns(slices.DeleteFunc(s.allRoutes(), s.isDisabled))
}

func listPatterns(routes []route) []string {
	patterns := make([]string, len(routes))
	for i, r := range routes {
		patterns[i] = r.pattern
	}
	return patterns
}

func (s *Server) wrapHandler(rt route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := s.authorizeRequest(r, rt.pattern)
		if err == nil {
			err = rt.handle(w, r)
		}
		if err != nil {
			s.writeError(w, r, err)
		}
	}
}
