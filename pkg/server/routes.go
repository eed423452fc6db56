package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"agenthost/pkg/store"
)

// mountRoutes mounts the enabled routes from the server and its extensions, and prepares the
// documents that describe them all.
func (s *Server) mountRoutes() {
	for _, extend := range s.opts.Extensions {
		if x := extend(s.Services); x != nil {
			s.extensions = append(s.extensions, x)
		}
	}
	if m := s.opts.Metrics; m != nil {
		for _, x := range s.extensions {
			s.stateMetrics.MustRegister(x.Metrics...)
			if x.Observe != nil {
				m.mu.Lock()
				m.observers = append(m.observers, x.Observe)
				m.mu.Unlock()
			}
		}
	}
	s.routes = map[string]*mountedRoute{}
	ids := map[string]string{}
	for _, rt := range s.allRoutes() {
		rt.mustBeComplete(ids)
		if rt.Disabled {
			continue
		}
		for _, pattern := range rt.listPatterns() {
			m := &mountedRoute{&rt, strings.Contains(pattern, "{user}"), strings.Contains(pattern, "{app}")}
			if s.routes[pattern] != nil {
				panic(fmt.Sprintf("server: two routes have the pattern %s", pattern))
			}
			s.routes[pattern] = m
			s.mux.HandleFunc(pattern, s.serveRoute(m))
		}
	}
	s.openAPI = sync.OnceValues(func() ([]byte, error) { return encodeOpenAPI(s.allRoutes(), s.listComponents()) })
	s.docsPage = sync.OnceValues(func() ([]byte, error) { return renderDocsPage(s.allRoutes(), s.listComponents()) })
}

// allRoutes lists every route, including those that the options disable.
func (s *Server) allRoutes() []Route {
	all := slices.Concat(s.pageRoutes(), s.appRoutes(), sessionHandlers{s.Services}.listRoutes(), artifactHandlers{s.Services}.listRoutes(), s.runRoutes())
	for _, x := range s.extensions {
		all = append(all, x.Routes...)
	}
	return all
}

// listComponents returns the OpenAPI document's components in YAML: the server's and its
// extensions'.
func (s *Server) listComponents() [][]byte {
	all := [][]byte{}
	for _, x := range s.extensions {
		all = append(all, x.Components)
	}
	return all
}

// Patterns returns the enabled routes' patterns in [http.ServeMux] syntax.
func (s *Server) Patterns() []string {
	var patterns []string
	for _, rt := range s.allRoutes() {
		if !rt.Disabled {
			patterns = append(patterns, rt.listPatterns()...)
		}
	}
	return patterns
}

// serveRoute authorizes and limits a route's requests, and writes its errors.
func (s *Server) serveRoute(rt *mountedRoute) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := s.authorizeRequest(r, rt)
		if err == nil {
			if rt.Limits.Body > 0 {
				r.Body = http.MaxBytesReader(w, r.Body, rt.Limits.Body)
			}
			if rt.Limits.ShareTimeout {
				r = r.WithContext(store.ShareTimeout(r.Context()))
			}
			err = rt.Handler(w, r)
		}
		if err != nil {
			s.writeError(w, r, err)
		}
	}
}

// pageRoutes are the server's own routes: pages, health checks, reload and metrics.
func (s *Services) pageRoutes() []Route {
	return []Route{
		{Method: "GET", Pattern: "/{$}", Access: AccessPublic, Handler: s.handlePage, Doc: Doc{Tag: "server", ID: "getPage", Summary: "Page for app authors", Answer: "text/html"}},
		{Method: "GET", Pattern: "/ui/{file}", Access: AccessPublic, Handler: s.handlePageFile, Doc: Doc{Tag: "server", ID: "getPageFile", Summary: "File of a page", Answer: "text/plain"}},
		{Method: "GET", Pattern: "/docs", Access: AccessPublic, Handler: s.handleDocs, Doc: Doc{Tag: "server", ID: "getDocs", Summary: "This document as a web page", Answer: "text/html"}},
		{Method: "GET", Pattern: "/openapi.json", Access: AccessPublic, Handler: s.handleOpenAPI, Doc: Doc{Tag: "server", ID: "getOpenAPI", Summary: "This document", Answer: "AnyObject"}},
		{Method: "GET", Pattern: "/health", Access: AccessProbe, Handler: s.handleHealth, Doc: Doc{Tag: "server", ID: "getHealth", Summary: "Liveness", Answer: "Health"}},
		{Method: "GET", Pattern: "/livez", Access: AccessProbe, Handler: s.handleLive, Doc: Doc{Tag: "server", ID: "getLiveness", Summary: "Liveness", Answer: "Health"}},
		{Method: "GET", Pattern: "/readyz", Access: AccessProbe, Handler: s.handleReady, Doc: Doc{Tag: "server", ID: "getReadiness", Summary: "Readiness", Answer: "Readiness", AltStatus: "503"}},
		{Method: "GET", Pattern: "/version", Access: AccessUser, Handler: s.handleVersion, Doc: Doc{Tag: "server", ID: "getVersion", Summary: "Versions of the server and of Go", Answer: "Version"}},
		{Method: "POST", Pattern: "/-/reload", Handler: s.handleReload, Doc: Doc{Tag: "server", ID: "reload", Summary: "Reload changed files now", Answer: "Reload", AltStatus: "409"}},
		{Method: "GET", Pattern: "/-/changes", Handler: s.handleChanges, Doc: Doc{Tag: "server", ID: "streamChanges", Summary: "Stream the status of all apps", Answer: "text/event-stream:Changes"}},
		{Method: "GET", Pattern: "/metrics", Access: AccessMetrics, Disabled: s.opts.Metrics == nil, Handler: s.handleMetrics, Doc: Doc{Tag: "server", ID: "getMetrics", Summary: "Prometheus metrics", Answer: "text/plain"}},
	}
}

func (s *Services) appRoutes() []Route {
	return []Route{
		{Method: "GET", Pattern: "/list-apps", Access: AccessUser, Handler: s.handleListApps, Doc: Doc{Tag: "apps", ID: "listApps", Summary: "List apps", Params: []string{"detailed"}, Answer: "AppList"}},
		{Method: "GET", Pattern: "/apps/{app}/app-info", Handler: s.handleAppInfo, Doc: Doc{Tag: "apps", ID: "getAppInfo", Summary: "Describe the LLM agents of an app", Answer: "AppInfo"}},
		{Method: "GET", Pattern: "/apps/{app}/diagnostics", Handler: s.handleDiagnostics, Doc: Doc{Tag: "apps", ID: "getDiagnostics", Summary: "Report the problems of an app's files", Answer: "AppStatus"}},
		{Method: "GET", Pattern: "/apps/{app}/protocols", Handler: s.handleProtocols, Doc: Doc{Tag: "apps", ID: "listProtocols", Summary: "List how clients reach an app, with snippets", Answer: "ProtocolList"}},
		{Method: "POST", Pattern: "/apps/{app}/preview", Handler: s.handlePreview, Doc: Doc{Tag: "apps", ID: "previewRequest", Summary: "Show the request that a model would get", Body: "PreviewRequest", Answer: "Preview"}},
	}
}

func (s *Services) runRoutes() []Route {
	return []Route{
		{Method: "POST", Pattern: "/run", Access: AccessUser, Handler: s.handleRun, Doc: Doc{Tag: "runs", ID: "run", Summary: "Run one turn and answer with its events", Params: []string{"detach", "provenance"}, Body: "RunRequest", Answer: "[Event]"}},
		{Method: "POST", Pattern: "/run_sse", Access: AccessUser, Handler: s.handleRunSSE, Doc: Doc{Tag: "runs", ID: "runSSE", Summary: "Run one turn and stream its events; a failed run ends with {\"error\", \"errorCode\"}", Params: []string{"detach", "eventIds", "provenance", "lastEventID"}, Body: "RunRequest", Answer: "text/event-stream:Event"}},
	}
}
