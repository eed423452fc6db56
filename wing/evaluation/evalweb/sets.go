package evalweb

import (
	"fmt"
	"net/http"

	"agenthost/pkg/server"
	"agenthost/wing/evaluation/eval"
)

// maxEvalSetID limits the characters in an ID, which is a part of file names.
const maxEvalSetID = 100

// handleEvalMetrics lists the metrics that have a threshold. ADK's web client cannot show
// the others.
func (s *handlers) handleEvalMetrics(w http.ResponseWriter, _ *http.Request) error {
	infos := []*eval.MetricInfo{}
	for _, m := range eval.Metrics() {
		if !m.Informational() {
			infos = append(infos, m.Info())
		}
	}
	return server.WriteJSON(w, map[string][]*eval.MetricInfo{"metricsInfo": infos})
}

// handleEvalSet responds with an eval set. As in ADK's API, its own keys stay
// snake_case.
func (s *handlers) handleEvalSet(w http.ResponseWriter, r *http.Request) error {
	return s.sendEval(w, r, func() (any, error) {
		file, err := s.readEvalSet(r)
		if err != nil {
			return nil, err
		}
		return file.Set, nil
	})
}

// handleCreateEvalSet creates the set in the body, with its cases.
func (s *handlers) handleCreateEvalSet(w http.ResponseWriter, r *http.Request) error {
	b, err := s.readEvalBody(w, r)
	if err != nil {
		return err
	}
	b.RequireField("evalSet")
	set := &eval.Set{}
	if f := b.FindField("evalSet"); f != nil {
		b.addEvalError(eval.Decode("", f.Value, set), string(f.Key))
	}
	if err := b.Err(); err != nil {
		return err
	}
	if err := s.createEvalSet(r, set); err != nil {
		return err
	}
	return s.sendEval(w, r, func() (any, error) { return set, nil })
}

// handleCreateNamedEvalSet creates an empty set with the ID in the path.
func (s *handlers) handleCreateNamedEvalSet(w http.ResponseWriter, r *http.Request) error {
	if err := s.createEvalSet(r, &eval.Set{ID: r.PathValue("name"), Cases: []*eval.Case{}}); err != nil {
		return err
	}
	return server.WriteJSON(w, nil)
}

func (s *handlers) createEvalSet(r *http.Request, set *eval.Set) error {
	if err := checkNewEvalSet(set); err != nil {
		return err
	}
	app := r.PathValue("app")
	root, err := s.openWritableFolder(app)
	if err != nil {
		return err
	}
	defer root.Close()
	s.edits.Lock()
	defer s.edits.Unlock()
	for _, suffix := range setSuffixes() {
		if _, err := root.Lstat(set.ID + suffix); err == nil {
			return badRequest("EvalSet " + set.ID + " already exists for app " + app + ".")
		}
	}
	if set.Name == "" {
		set.Name = set.ID
	}
	if set.CreationTimestamp == 0 {
		set.CreationTimestamp = s.nowSeconds()
	}
	return writeEvalSet(root, set.ID, set)
}

func (s *handlers) nowSeconds() float64 { return float64(s.Now().UnixMicro()) / 1e6 }

func checkNewEvalSet(set *eval.Set) error {
	if err := eval.CheckNewSetID(set.ID); err != nil {
		return badRequest(err.Error())
	}
	if len(set.ID) > maxEvalSetID {
		return badRequest(fmt.Sprintf("eval set ID exceeds the limit of %d characters", maxEvalSetID))
	}
	for _, c := range set.Cases {
		if err := checkNewCaseID(c.ID); err != nil {
			return err
		}
	}
	return nil
}

// handleDeleteEvalSet deletes a set. Its results remain.
func (s *handlers) handleDeleteEvalSet(w http.ResponseWriter, r *http.Request) error {
	root, err := s.openWritableFolder(r.PathValue("app"))
	if err != nil {
		return err
	}
	defer root.Close()
	s.edits.Lock()
	defer s.edits.Unlock()
	name := r.PathValue("name")
	if err := rejectEvalFile(root, name); err != nil {
		return err
	}
	if !isRegularFile(root, ".", name, eval.SetSuffix) {
		return evalSetNotFound(name)
	}
	if err := root.Remove(name + eval.SetSuffix); err != nil {
		return wrapWriteError(err)
	}
	return server.WriteJSON(w, nil)
}
