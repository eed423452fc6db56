package outcomes

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"agenthost/internal/jsonbody"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/store"
)

// maxOutcomeSessions is how many sessions a request for outcomes reads at most, and
// defaultOutcomeSessions how many without a limit: a page asks often.
const (
	maxOutcomeSessions     = store.DefaultOutcomeSessions
	defaultOutcomeSessions = 10_000
)

// components are the parameters and schemas for the route.
//
//go:embed components.yaml
var components []byte

// handlers handle the route.
type handlers struct{ *server.Services }

// Extend returns a server extension with the route, and with metrics by revision.
func Extend() func(*server.Services) *server.Extension {
	return func(s *server.Services) *server.Extension {
		h, m := &handlers{s}, newRevisionMetrics()
		return &server.Extension{Components: components, Metrics: m.listCollectors(), Observe: m.observeRun, Routes: []server.Route{
			{Method: "GET", Pattern: "/apps/{app}/outcomes", Limits: server.Limits{ShareTimeout: true}, Handler: h.handleOutcomes, Doc: server.Doc{Tag: "apps", ID: "getOutcomes", Summary: "Count what came out of an app's turns, with intervals", Params: []string{"outcomesBy", "outcomesSince", "outcomesUser", "outcomesLimit"}, Answer: "Outcomes"}},
		}}
	}
}

// handleOutcomes responds with a summary for an app's latest created sessions. Only administrators may
// use it: it reads all users' sessions.
func (s *handlers) handleOutcomes(w http.ResponseWriter, r *http.Request) error {
	req, err := s.readOutcomeRequest(r)
	if err != nil {
		return err
	}
	return s.WriteLarge(w, r, false, func() ([]byte, error) {
		summary, err := Summarize(r.Context(), s.Host().Store(), req)
		if errors.Is(err, store.ErrNoOutcomes) {
			return nil, server.NewError(http.StatusNotImplemented, err.Error())
		}
		if err != nil {
			return nil, server.WithSessionKey(session.Key{App: req.App}, err)
		}
		return server.EncodeJSON(summary)
	})
}

func (s *handlers) readOutcomeRequest(r *http.Request) (*Request, error) {
	app, query := r.PathValue("app"), r.URL.Query()
	if s.Host().App(app) == nil {
		return nil, server.NewError(http.StatusNotFound, "App not found: "+app)
	}
	req := &Request{OutcomeRequest: store.OutcomeRequest{App: app, User: query.Get("user"), MaxSessions: defaultOutcomeSessions}}
	var err error
	if req.By, err = ParseKeys(cmp.Or(query.Get("by"), "revision")); err != nil {
		return nil, jsonbody.NewError("value_error", err.Error(), "query", "by")
	}
	if text := query.Get("since"); text != "" {
		var age spec.Duration
		if ds := age.DecodeSpec(&spec.Node{Kind: spec.Scalar, Value: text}); ds.HasErrors() || age == 0 {
			return nil, jsonbody.NewError("value_error", "Input should be a duration above zero, such as 7d or 12h", "query", "since")
		}
		req.Since = s.Now().Add(-time.Duration(age))
	}
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxOutcomeSessions {
			return nil, jsonbody.NewError("value_error", fmt.Sprintf("Input should be from 1 to %d", maxOutcomeSessions), "query", "limit")
		}
		req.MaxSessions = n
	}
	return req, nil
}
