// Package server is HTTP over a [runtime.Host], on the paths and in the JSON
// of ADK's API server. A handler decodes, asks the host or its store, and
// encodes; what agents do is not known here.
//
//	GET    /{$}                                  the page for who writes apps
//	GET    /ui/{file}                            what the page is made of
//	GET    /docs                                 the OpenAPI document as a page
//	GET    /openapi.json                         the OpenAPI document of all routes
//	GET    /health                               is the process there
//	GET    /livez                                the same
//	GET    /readyz                               should runs be sent here, and why not
//	POST   /-/reload                             load what was changed
//	GET    /-/changes                            how the apps are, as it changes, as a stream
//	GET    /version                              version of the host and of Go
//	GET    /list-apps                            names, or ?detailed=true
//	GET    /apps/{app}/diagnostics               what is wrong with the app's files
//	GET    /apps/{app}/app-info                  the LLM agents of the app
//	POST   /apps/{app}/preview                   the request that a model would get
//	GET    /apps/{app}/users/{user}/sessions             list, without events
//	POST   /apps/{app}/users/{user}/sessions             create
//	GET    /apps/{app}/users/{user}/sessions/{session}   with events
//	POST   /apps/{app}/users/{user}/sessions/{session}   create, body is the state (deprecated)
//	DELETE /apps/{app}/users/{user}/sessions/{session}   also when there is none
//	PATCH  /apps/{app}/users/{user}/sessions/{session}   change the state
//	POST   /apps/{app}/users/{user}/sessions/{session}/rewind   take back its end, and go on
//	PATCH  /apps/{app}/users/{user}/memory               remember what was said in a session
//	GET    /apps/{app}/users/{user}/sessions/{session}/artifacts             names
//	POST   /apps/{app}/users/{user}/sessions/{session}/artifacts             save
//	GET    /apps/{app}/users/{user}/sessions/{session}/artifacts/{name...}   a part, or below it its versions
//	DELETE /apps/{app}/users/{user}/sessions/{session}/artifacts/{name...}   also when there is none
//	POST   /run                                  one invocation, all events at the end
//	POST   /run_sse                              one invocation, events as they happen
//	GET    /metrics                              for Prometheus, if Options.Metrics is set
//
// Behind them come the paths for developers, which are in dev.go, and those of
// ADK's web client, in ui.go.
//
// Request bodies are JSON whatever their Content-Type says. Keys may be
// camelCase or snake_case, camelCase wins; unknown keys at the top are ignored,
// inside a Content they are refused. Answers are camelCase, without empty
// fields.
//
// Errors are {"detail": …} with the statuses of adk-python: a text, or for 422
// a list of what is wrong and where. Where adk-python has no rule:
//
//	400  a request that can never be carried out
//	404  creating a session of an app that is not there; reading and deleting
//	     do not ask for the app, artifacts not for the session either
//	409  the session is busy or was changed meanwhile; Retry-After says when to
//	     come again
//	401  nobody knows the caller; 403 it may not do this (caller.go)
//	408  the body came too slowly
//	413  the body is larger than Options.MaxBody, or holds too many values, or
//	     what it writes exceeds a limit of the store
//	429  too many runs of a user or an app (limit.go)
//	503  the host is about to stop, or has no place for another stream of changes
//
// The stream of /run_sse is written in stream.go. A run ends with its request:
// a client that leaves, or does not read, stops the model, unless it has said
// ?detach=true. With Last-Event-ID it comes back to a run (catchup.go). Event ids are
// sent to clients that ask with ?eventIds=true.
//
// The OpenAPI document is made of the table of routes, operations (openapi_operations.go)
// and schemas (openapi.yaml).
package server
