package evalweb

import (
	"context"
	"net/http"

	"agenthost/wing/evaluation/eval"
)

// An evalRunFrame is a step in a run that the page follows: its start, a case that ended, or
// its end.
type evalRunFrame struct {
	ResultID string           `json:"resultId,omitempty"`
	Total    int              `json:"total,omitempty"`
	Case     *evalCaseOutcome `json:"case,omitempty"`
	// Done reports that the result is stored.
	Done bool `json:"done,omitempty"`
}

// handleFollowEvalRun runs a set and streams each case's scores when it has ended, with
// comments while none does. A client that disconnects cancels the run, and nothing is stored.
func (s *handlers) handleFollowEvalRun(w http.ResponseWriter, r *http.Request) error {
	req, err := s.readEvalViewRequest(w, r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	st := s.NewStream(w)
	last := evalRunFrame{Done: true}
	for step, err := range s.evaluateSet(ctx, req, func() error { return s.addEvalViewSet(r, req) }) {
		if err != nil {
			return s.FailStream(st, r, err)
		}
		frame := evalRunFrame{ResultID: step.ResultID, Total: step.Total}
		if step.Result == nil {
			last.ResultID = step.ResultID
			defer st.StartKeepAlive(cancel)()
		} else {
			outcome := newCaseOutcome(step.Result)
			frame = evalRunFrame{Case: &outcome}
		}
		if st.SendJSON(frame) != nil {
			return nil // the client has disconnected
		}
	}
	_ = st.SendJSON(last)
	return nil
}

// readEvalViewRequest reads a run's body.
func (s *handlers) readEvalViewRequest(w http.ResponseWriter, r *http.Request) (*eval.RunRequest, error) {
	b, err := s.readEvalBody(w, r)
	if err != nil {
		return nil, err
	}
	req := &eval.RunRequest{App: r.PathValue("app"), CaseIDs: b.readStrings("evalCaseIds"), Measures: b.readMeasures("evalMetrics")}
	if err := b.Err(); err != nil {
		return nil, err
	}
	return req, nil
}

// addEvalViewSet reads the set in the path with its config.
func (s *handlers) addEvalViewSet(r *http.Request, req *eval.RunRequest) error {
	root, err := s.openWritableFolder(req.App)
	if err != nil {
		return err
	}
	defer root.Close()
	if req.Set, req.Config, err = readSetWithConfig(root, r.PathValue("file")); err != nil {
		return err
	}
	return checkEvalCases(req)
}
