package revisions

import (
	"context"
	_ "embed"
	"errors"
	"io/fs"
	"net/http"
	"time"

	"agenthost/internal/appfolder"
	"agenthost/internal/jsonbody"
	"agenthost/pkg/loader"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/store"
)

// Options configure the routes.
type Options struct {
	// Loader compares revisions and loads files; nil disables the routes.
	Loader *loader.Loader
	// Folders has the app folders; nil has none.
	Folders appfolder.Folders
}

const (
	// maxRevisions limits a list of revisions. keep_revisions limits what is stored.
	maxRevisions = 500
	// maxCountedSessions limits how many sessions a plan counts.
	maxCountedSessions = 10_000
	// liveFor is how recent the last event of a live session is, as for the command plan.
	liveFor = 24 * time.Hour
	// maxID limits a revision in a query.
	maxID = 128
)

// components are the parameters and schemas for the routes.
//
//go:embed components.yaml
var components []byte

type handlers struct {
	*server.Services
	opts Options
	// loading has room for one request that loads an app's files: it costs as much as a reload.
	loading chan struct{}
}

// Extend returns an extension for servers; opts may be nil. Its routes are for administrators: they
// return the files of apps.
func Extend(opts *Options) func(*server.Services) *server.Extension {
	if opts == nil {
		opts = &Options{}
	}
	return func(s *server.Services) *server.Extension {
		h := &handlers{Services: s, opts: *opts, loading: make(chan struct{}, 1)}
		isDisabled := h.opts.Loader == nil
		limits := server.Limits{ShareTimeout: true}
		return &server.Extension{Components: components, Routes: []server.Route{
			{Method: "GET", Pattern: "…/revisions", Disabled: isDisabled, Limits: limits, Handler: h.handleList, Doc: server.Doc{Tag: "developer", ID: "listRevisions", Summary: "List an app's stored revisions, newest first", Answer: "Revisions"}},
			{Method: "GET", Pattern: "…/revisions/diff", Disabled: isDisabled, Limits: limits, Handler: h.handleDiff, Doc: server.Doc{Tag: "developer", ID: "compareRevisions", Summary: "Compare two revisions of an app", Params: []string{"revisionFrom", "revisionTo"}, Answer: "RevisionDiff"}},
			{Method: "GET", Pattern: "…/plan", Disabled: isDisabled, Handler: h.handlePlan, Doc: server.Doc{Tag: "developer", ID: "planApp", Summary: "Compare an app's files on disk with the revision that serves", Answer: "RevisionPlan"}},
		}}
	}
}

// A revisionLine is a revision in the list.
type revisionLine struct {
	Revision string `json:"revision"`
	// Served is when it began to serve, the last time.
	Served time.Time `json:"served"`
}

type listBody struct {
	// Serving is the revision that serves here; empty if none does.
	Serving   string         `json:"serving"`
	Revisions []revisionLine `json:"revisions"`
	// More is how many older ones the list omits.
	More int `json:"more,omitempty"`
}

func (s *handlers) handleList(w http.ResponseWriter, r *http.Request) error {
	app := r.PathValue("app")
	all, err := s.Host().Store().Revisions.List(r.Context(), app)
	if err != nil {
		return server.WithSessionKey(session.Key{App: app}, err)
	}
	body := listBody{Serving: s.servingRevision(app), Revisions: []revisionLine{}}
	if len(all) == 0 && s.Host().App(app) == nil {
		return server.NewError(http.StatusNotFound, "App not found: "+app)
	}
	for i, rev := range all {
		if i == maxRevisions {
			body.More = len(all) - i
			break
		}
		body.Revisions = append(body.Revisions, revisionLine{rev.ID, rev.Served})
	}
	return server.WriteJSON(w, body)
}

func (s *handlers) servingRevision(app string) string {
	if a := s.Host().App(app); a != nil {
		return a.Revision()
	}
	return ""
}

// A diffBody is a comparison with the lines of its files.
type diffBody struct {
	From    string          `json:"from"`
	To      string          `json:"to"`
	Changes []loader.Change `json:"changes"`
	Files   []FileChange    `json:"files"`
	// MoreFiles is how many files the list omits.
	MoreFiles int `json:"moreFiles,omitempty"`
}

func newDiffBody(c *Comparison, before, after map[string][]byte) diffBody {
	body := diffBody{From: c.From, To: c.To, Changes: c.Changes}
	body.Files, body.MoreFiles = listFileChanges(c.Files, before, after)
	return body
}

func (s *handlers) handleDiff(w http.ResponseWriter, r *http.Request) error {
	app := r.PathValue("app")
	before, err := s.findRevision(r, app, "from")
	if err != nil {
		return err
	}
	after, err := s.findRevision(r, app, "to")
	if err != nil {
		return err
	}
	return s.WriteLarge(w, r, false, func() ([]byte, error) {
		c := CompareRevisions(r.Context(), s.opts.Loader, before, after)
		return server.EncodeJSON(newDiffBody(&c, before.Files, after.Files))
	})
}

// findRevision returns the revision that a query parameter names, by its whole name: a prefix could
// name another one after the next reload.
func (s *handlers) findRevision(r *http.Request, app, parameter string) (*store.Revision, error) {
	id := r.URL.Query().Get(parameter)
	if id == "" || len(id) > maxID {
		return nil, jsonbody.NewError("value_error", "Input should be a revision of the app, with at most 128 characters", "query", parameter)
	}
	rev, err := s.Host().Store().Revisions.Get(r.Context(), app, id)
	if errors.Is(err, session.ErrNotFound) || err == nil && rev.ID != id {
		return nil, server.NewError(http.StatusNotFound, "Revision not found: "+id)
	}
	if err != nil {
		return nil, server.WithSessionKey(session.Key{App: app}, err)
	}
	return rev, nil
}

// A planBody is a plan with the lines of its files.
type planBody struct {
	App string `json:"app"`
	diffBody
	// Serving is the revision that serves here. It is not From after a rollback of files that another
	// replica has loaded.
	Serving  string `json:"serving"`
	Reach    string `json:"reach,omitempty"`
	Sessions int    `json:"sessions"`
	Live     int    `json:"live"`
	// MoreSessions reports that the app has more sessions than were counted.
	MoreSessions bool `json:"moreSessions,omitempty"`
	// Problems are the errors and warnings in the files. With errors, To is empty and the files would
	// not be activated.
	Problems spec.Diagnostics `json:"problems"`
}

// handlePlan loads an app's files as a reload does, without publishing them.
func (s *handlers) handlePlan(w http.ResponseWriter, r *http.Request) error {
	select {
	case s.loading <- struct{}{}:
		defer func() { <-s.loading }()
	case <-r.Context().Done():
		return r.Context().Err()
	}
	app := r.PathValue("app")
	root, err := appfolder.Open(s.opts.Folders, app)
	if errors.Is(err, fs.ErrNotExist) {
		return server.NewError(http.StatusNotFound, "App has no folder: "+app)
	}
	if err != nil {
		return err
	}
	defer root.Close()
	body, err := s.planFolder(r.Context(), app, root.Name())
	if err != nil {
		return server.WithSessionKey(session.Key{App: app}, err)
	}
	return s.WriteLarge(w, r, false, func() ([]byte, error) { return server.EncodeJSON(body) })
}

func (s *handlers) planFolder(ctx context.Context, app, dir string) (*planBody, error) {
	loaded, ds := s.opts.Loader.LoadFiles(ctx, dir)
	body := &planBody{App: app, Serving: s.servingRevision(app), Problems: spec.Diagnostics{}}
	body.Changes, body.Files = []loader.Change{}, []FileChange{}
	body.Problems = append(body.Problems, ds...)
	if loaded == nil {
		return body, ctx.Err()
	}
	defer loaded.App.Close()
	p, before, err := (&Planner{s.opts.Loader, s.Host().Store(), body.Serving}).PlanApp(ctx, loaded)
	if err != nil {
		return nil, err
	}
	body.Reach = string(p.Reach)
	if before == nil {
		body.From, body.To = p.From, p.To
		return body, nil
	}
	body.diffBody = newDiffBody(&p.Comparison, before.Files, loaded.Files)
	return body, s.countSessions(ctx, body)
}

// countSessions counts the app's sessions, up to a limit.
func (s *handlers) countSessions(ctx context.Context, body *planBody) error {
	since := s.Now().Add(-liveFor)
	for token := ""; ; {
		page, next, err := s.Host().Store().Sessions.Page(ctx, &store.PageRequest{App: body.App, Size: store.MaxPage, Token: token, WithoutState: true})
		if err != nil {
			return err
		}
		for _, sess := range page {
			body.Sessions++
			if sess.LastUpdate.After(since) {
				body.Live++
			}
		}
		token = next
		if body.MoreSessions = token != "" && body.Sessions >= maxCountedSessions; token == "" || body.MoreSessions {
			return nil
		}
	}
}
