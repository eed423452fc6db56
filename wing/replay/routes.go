package replay

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"time"

	"agenthost/internal/appfolder"
	"agenthost/internal/jsonbody"
	"agenthost/pkg/loader"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
)

// Options configure the route.
type Options struct {
	// Loader loads the files as for serving; nil disables the route.
	Loader *loader.Loader
	// Folders has the app folders; nil has none.
	Folders appfolder.Folders
}

const (
	// maxRouteSample is how many sessions a request replays at most: the host serves at the same time.
	maxRouteSample = 500
	// routeTimeout limits a request's replay.
	routeTimeout = 2 * time.Minute
	// maxListed limits each list in a response.
	maxListed = 500
)

// components are the schemas for the route.
//
//go:embed components.yaml
var components []byte

type handlers struct {
	*server.Services
	opts Options
	// running has room for one replay.
	running chan struct{}
}

// Extend returns a server extension with a route that replays sessions on an app's files, for
// administrators; opts may be nil.
func Extend(opts *Options) func(*server.Services) *server.Extension {
	if opts == nil {
		opts = &Options{}
	}
	return func(s *server.Services) *server.Extension {
		h := &handlers{s, *opts, make(chan struct{}, 1)}
		return &server.Extension{Components: components, Routes: []server.Route{
			{Method: "POST", Pattern: "…/replay", Disabled: opts.Loader == nil, Handler: h.handleReplay, Doc: server.Doc{Tag: "developer", ID: "replaySessions", Summary: "Replay stored sessions on an app's files on disk", Body: "ReplayRequest", Answer: "Replay"}},
		}}
	}
}

// A replayBody is a report, or the problems that keep the files from being replayed.
type replayBody struct {
	App string `json:"app"`
	*Report
	Problems spec.Diagnostics `json:"problems"`
	// MoreDifferences and MoreIncomparable are how many the lists omit.
	MoreDifferences  int `json:"moreDifferences,omitempty"`
	MoreIncomparable int `json:"moreIncomparable,omitempty"`
}

// handleReplay replays sessions on the files on disk, and stores nothing. The report has no texts.
func (h *handlers) handleReplay(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Sample int `json:"sample"`
	}
	if err := h.ReadJSON(w, r, &body); err != nil {
		return err
	}
	if body.Sample < 0 || body.Sample > maxRouteSample {
		return jsonbody.NewError("less_than_equal", fmt.Sprintf("Input should be from 1 to %d", maxRouteSample), "body", "sample")
	}
	app := r.PathValue("app")
	root, err := appfolder.Open(h.opts.Folders, app)
	if errors.Is(err, fs.ErrNotExist) {
		return server.NewError(http.StatusNotFound, "App has no folder: "+app)
	}
	if err != nil {
		return err
	}
	defer root.Close()
	select {
	case h.running <- struct{}{}:
		defer func() { <-h.running }()
	default:
		return server.NewError(http.StatusConflict, "Another replay is running on this host")
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), routeTimeout, server.NewError(http.StatusGatewayTimeout, "The replay exceeded 2 minutes: replay fewer sessions, or run agenthost replay"))
	defer cancel()
	req := &Request{Loader: h.opts.Loader, Dir: root.Name(), Store: h.Host().Store(), Now: h.Now(), Adjust: func(rules *Rules) {
		rules.Sample = min(cmp.Or(body.Sample, rules.Sample), maxRouteSample)
	}}
	report, ds, err := PlaySessions(ctx, req)
	if err != nil {
		return server.WithSessionKey(session.Key{App: app}, err)
	}
	answer := &replayBody{App: app, Report: report, Problems: append(spec.Diagnostics{}, ds...)}
	if report != nil {
		report.HideValues()
		answer.MoreDifferences = max(0, len(report.Differences)-maxListed)
		answer.MoreIncomparable = max(0, len(report.Incomparable)-maxListed)
		report.Differences = report.Differences[:min(len(report.Differences), maxListed)]
		report.Incomparable = report.Incomparable[:min(len(report.Incomparable), maxListed)]
	}
	return h.WriteLarge(w, r, false, func() ([]byte, error) { return server.EncodeJSON(answer) })
}
