// Package server serves a [runtime.Host] over HTTP, with the paths and the JSON of ADK's
// API server. A handler decodes the request, calls the host or its store, and encodes
// the response. The package contains no agent logic.
//
//	GET    /{$}                                  page for app authors
//	GET    /ui/{file}                            files of the page
//	GET    /docs                                 OpenAPI document as a page
//	GET    /openapi.json                         OpenAPI document of all routes
//	GET    /health                               liveness
//	GET    /livez                                liveness
//	GET    /readyz                               readiness, with reasons
//	GET    /version                              versions of the server and of Go
//	POST   /-/reload                             reload changed files
//	GET    /-/changes                            stream of the status of all apps
//	GET    /metrics                              Prometheus metrics, if Options.Metrics is set
//	GET    /list-apps                            names, or ?detailed=true
//	GET    /apps/{app}/app-info                  LLM agents of the app
//	GET    /apps/{app}/diagnostics               errors and warnings of the app's files
//	GET    /apps/{app}/protocols                 how clients reach the app
//	POST   /apps/{app}/preview                   request that a model would get
//	GET    /apps/{app}/users/{user}/sessions             list, without events
//	POST   /apps/{app}/users/{user}/sessions             create
//	GET    /apps/{app}/users/{user}/sessions/{session}   with events
//	POST   /apps/{app}/users/{user}/sessions/{session}   create, body is the state (deprecated)
//	PATCH  /apps/{app}/users/{user}/sessions/{session}   change the state
//	DELETE /apps/{app}/users/{user}/sessions/{session}   also if it does not exist
//	POST   /apps/{app}/users/{user}/sessions/{session}/rewind   remove the end, optionally run
//	POST   /apps/{app}/users/{user}/sessions/{session}/stop     stop the session's run, on any replica
//	POST   /apps/{app}/users/{user}/sessions/{session}/fork   copy the beginning
//	GET    /apps/{app}/users/{user}/sessions/{session}/feedback   scores for invocations
//	POST   /apps/{app}/users/{user}/sessions/{session}/feedback   score an invocation
//	PATCH  /apps/{app}/users/{user}/memory               add a session to the memory
//	GET    /apps/{app}/users/{user}/sessions/{session}/artifacts             names
//	POST   /apps/{app}/users/{user}/sessions/{session}/artifacts             save
//	GET    /apps/{app}/users/{user}/sessions/{session}/artifacts/{name...}   content, or below it the versions
//	DELETE /apps/{app}/users/{user}/sessions/{session}/artifacts/{name...}   also if it does not exist
//	POST   /run                                  one invocation, all events in one response
//	POST   /run_sse                              one invocation, events as a stream
//
// routes.go lists the routes. Extensions add more ([Extension]): live conversations,
// evaluations, revisions, operations, and what ADK's web client reads.
//
// Request bodies are parsed as JSON regardless of Content-Type. Keys may be camelCase or
// snake_case; camelCase takes precedence. Unknown keys are ignored at the top level and
// rejected inside a Content. Responses are camelCase and omit empty fields.
//
// Errors are {"detail": …} with the statuses of adk-python. The detail is a string or,
// for 422, a list of errors with their locations. Where adk-python has no rule:
//
//	400  the request can never succeed
//	401  unauthenticated
//	403  permission denied (auth.go)
//	404  creating a session of an unknown app; reading and deleting do not check the
//	     app, and artifacts do not check the session
//	408  the request body timed out
//	409  the session is busy or was changed by another writer; see Retry-After
//	413  the body exceeds Options.MaxBody or the limit of values, or the data exceeds a
//	     limit of the store
//	429  the rate limit of a user or an app is exceeded (limits.go)
//	503  the server is shutting down, the store is unavailable, or a limit of
//	     concurrent responses or change streams is reached
//
// stream.go writes the stream of /run_sse. A run ends with its request: a client that
// disconnects or stops reading cancels the model call, unless the request has
// ?detach=true. With Last-Event-ID a client resumes a stream (resume.go). Event
// IDs are sent to clients that ask for them with ?eventIds=true.
//
// The OpenAPI document is generated from the routes and the schemas (openapi.yaml).
package server
