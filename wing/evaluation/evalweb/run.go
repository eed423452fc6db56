package evalweb

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/http"
	"syscall"

	"agenthost/internal/appfolder"
	"agenthost/pkg/server"
	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalfile"
)

const (
	// maxEvalRuns limits the eval runs in progress, maxEvalCases the cases in each.
	maxEvalRuns  = 2
	maxEvalCases = 1000
)

var (
	errEvalRunsForbidden   = forbiddenError("Eval sets cannot be run: they call models; start the server with --dev")
	errEvalRunsUnavailable = server.NewError(http.StatusNotImplemented, "Eval sets cannot be run on this server: use agenthost eval")
)

var errTooManyEvalRuns = server.NewError(http.StatusServiceUnavailable, fmt.Sprintf("too many eval runs in progress (limit %d), retry later", maxEvalRuns))

// requireEvaluator rejects requests unless developers may run eval sets.
func (s *handlers) requireEvaluator(h server.Handler) server.Handler {
	switch {
	case !s.opts.Dev:
		return rejectWith(errEvalRunsForbidden)
	case s.opts.Evaluator == nil || s.opts.Folders == nil:
		return rejectWith(errEvalRunsUnavailable)
	}
	return h
}

// handleRunEvalSet runs a set and responds with each case's result.
func (s *handlers) handleRunEvalSet(w http.ResponseWriter, r *http.Request) error {
	return s.runEvalSet(w, r, func(list []byte) []byte {
		return append(append([]byte(`{"runEvalResults":`), list...), '}')
	})
}

// handleRunEval responds as ADK 1, with a list.
func (s *handlers) handleRunEval(w http.ResponseWriter, r *http.Request) error {
	return s.runEvalSet(w, r, func(list []byte) []byte { return list })
}

func (s *handlers) runEvalSet(w http.ResponseWriter, r *http.Request, wrap func(list []byte) []byte) error {
	req, err := s.readEvalRequest(w, r)
	if err != nil {
		return err
	}
	list := []byte{'['}
	for step, err := range s.evaluateSet(r.Context(), req, func() error { return s.addEvalSet(r, req) }) {
		if err != nil {
			return err
		}
		if step.Result == nil {
			continue
		}
		if len(list) > 1 {
			list = append(list, ',')
		}
		if list, err = appendRunResult(list, step.Result); err != nil {
			return err
		}
	}
	return s.WriteLarge(w, r, true, func() ([]byte, error) {
		return wrap(append(list, ']')), nil
	})
}

// appendRunResult appends a case's result as ADK responds with it: without the session, and
// with a list that ADK leaves empty.
func appendRunResult(list []byte, result *eval.CaseResult) ([]byte, error) {
	sent := *result
	sent.Session, sent.Extra = nil, eval.Extra{"evalMetricResults": json.RawMessage("[]")}
	adaptCaseResult(&sent)
	text, err := eval.EncodeWire(&sent)
	return append(list, text...), err
}

// readEvalRequest reads a run's body.
func (s *handlers) readEvalRequest(w http.ResponseWriter, r *http.Request) (*eval.RunRequest, error) {
	b, err := s.readEvalBody(w, r)
	if err != nil {
		return nil, err
	}
	b.RequireField("evalMetrics")
	req := &eval.RunRequest{
		App: r.PathValue("app"), CaseIDs: b.readStrings("evalCaseIds"), Measures: b.readMeasures("evalMetrics"), Simulator: b.readSimulator("userSimulatorConfig"),
	}
	if old := b.readStrings("evalIds"); len(req.CaseIDs) == 0 {
		req.CaseIDs = old
	}
	req.Live = b.readLiveConfig("liveModelConfig")
	return req, b.Err()
}

// addEvalSet reads the set in the path, and the config in its folder.
func (s *handlers) addEvalSet(r *http.Request, req *eval.RunRequest) error {
	name := r.PathValue("name")
	root, err := appfolder.Open(s.opts.Folders, req.App)
	if errors.Is(err, fs.ErrNotExist) {
		return evalSetNotFound(name)
	}
	if err != nil {
		return err
	}
	defer root.Close()
	file, err := readEvalFile(root, name)
	if err != nil {
		return err
	}
	folder, err := readEvalConfig(root)
	if err != nil {
		return err
	}
	set := *file.Set
	set.ID = name // ADK's web client finds the results of a set by the name of its file
	req.Set, req.Config = &set, evalfile.MergeConfigs(file.Config, folder)
	return checkEvalCases(req)
}

func checkEvalCases(req *eval.RunRequest) error {
	if cases := cmp.Or(len(req.CaseIDs), len(req.Set.Cases)); cases > maxEvalCases {
		return badRequest(fmt.Sprintf("the run has %d cases, more than %d: select fewer with evalCaseIds, or use agenthost eval", cases, maxEvalCases))
	}
	return nil
}

// evaluateSet runs a request and turns its errors into responses. The run ends with ctx, and a
// shutdown waits for it as for other runs. AddSet adds the set and its config to the request,
// only if the run may start: sets may be large.
func (s *handlers) evaluateSet(ctx context.Context, req *eval.RunRequest, addSet func() error) iter.Seq2[*eval.RunProgress, error] {
	return func(yield func(*eval.RunProgress, error) bool) {
		select {
		case s.runs <- struct{}{}:
			defer func() { <-s.runs }()
		default:
			yield(nil, errTooManyEvalRuns)
			return
		}
		end, err := s.TrackRun()
		if err != nil {
			yield(nil, err)
			return
		}
		defer end()
		if err := addSet(); err != nil {
			yield(nil, err)
			return
		}
		for step, err := range s.opts.Evaluator.Evaluate(ctx, req) {
			if !yield(step, wrapEvaluationError(err)) {
				return
			}
		}
	}
}

// wrapEvaluationError reports an unknown case as missing, and a folder that the server may
// not write.
func wrapEvaluationError(err error) error {
	var unknown *eval.UnknownNameError
	switch {
	case errors.As(err, &unknown) && unknown.Kind == "case":
		return notFoundError(unknown.Error())
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return forbiddenError("Eval results cannot be stored: the server has no permission to write to the app's folder")
	}
	return err
}
