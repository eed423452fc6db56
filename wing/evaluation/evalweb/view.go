package evalweb

import (
	"encoding/json"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"

	"agenthost/internal/appfolder"
	"agenthost/internal/limit"
	"agenthost/pkg/server"
	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalfile"
	"agenthost/wing/evaluation/evalrun"
)

// The page's Evaluations view reads lists first, and one case in a result at a time: a result
// contains the sessions for all its cases.

const (
	// maxListedResults limits the results in an overview; the newest are listed.
	maxListedResults = 500
	// maxFirstMessage limits a message's characters in the case list.
	maxFirstMessage = 200
)

// An evalOverview lists an app's eval sets and results.
type evalOverview struct {
	// Locked is why sets can be neither changed nor run; empty if they can.
	Locked  string            `json:"locked,omitempty"`
	Sets    []evalSetEntry    `json:"sets"`
	Results []evalResultEntry `json:"results"`
	// OlderResults counts the results that are not listed.
	OlderResults int `json:"olderResults,omitempty"`
}

// An evalSetEntry is a file with an eval set.
type evalSetEntry struct {
	// File is the path in the app's folder, ID the set's name.
	File string `json:"file"`
	ID   string `json:"id"`
	// Cases is nil if the set was not read: the sets that an overview reads are limited.
	Cases *int `json:"cases,omitempty"`
	// Editable sets are ADK's, to which the page adds cases.
	Editable bool   `json:"editable,omitempty"`
	Problem  string `json:"problem,omitempty"`
}

// handleEvalOverview lists an app's eval sets and results.
func (s *handlers) handleEvalOverview(w http.ResponseWriter, r *http.Request) error {
	return s.sendEvalView(w, r, func() (any, error) {
		app := r.PathValue("app")
		view := &evalOverview{Locked: s.findEvalLock(app), Sets: []evalSetEntry{}, Results: []evalResultEntry{}}
		history, err := s.openEvalHistory(app)
		if err != nil {
			return nil, err
		}
		defer history.closeFolder()
		if history.root != nil {
			view.Sets, err = listEvalSets(history.root)
		} else if s.Host().App(app) == nil {
			err = appNotFound(app)
		}
		if err != nil {
			return nil, err
		}
		if view.Results, err = history.listResults(r.Context()); err != nil {
			return nil, err
		}
		if older := len(view.Results) - maxListedResults; older > 0 {
			view.Results, view.OlderResults = view.Results[:maxListedResults], older
		}
		return view, nil
	})
}

// sendEvalView sends a value within the limit for large responses.
func (s *handlers) sendEvalView(w http.ResponseWriter, r *http.Request, read func() (any, error)) error {
	return s.WriteLarge(w, r, false, func() ([]byte, error) {
		v, err := read()
		if err != nil {
			return nil, err
		}
		return server.EncodeJSON(v)
	})
}

// findEvalLock returns why an app's sets can be neither changed nor run, or "".
func (s *handlers) findEvalLock(app string) string {
	if !s.opts.Dev || s.opts.Folders == nil {
		return "Eval sets can be neither changed nor run: they call models. Start the server with --dev."
	}
	root, err := appfolder.Open(s.opts.Folders, app)
	if err != nil {
		return "App " + app + " has no folder on this server, and eval sets are files in that folder."
	}
	root.Close()
	return ""
}

// listEvalSets lists the sets in a folder with their case counts. It reads sets until their
// files exceed the limit for one file together.
func listEvalSets(root *os.Root) ([]evalSetEntry, error) {
	files, err := evalrun.ListSets(root.Name())
	if err != nil {
		return nil, err
	}
	sets, budget := []evalSetEntry{}, int64(limit.EvalFile.Bytes)
	for _, file := range files {
		rel, err := filepath.Rel(root.Name(), file)
		if err != nil {
			return nil, err
		}
		rel = filepath.ToSlash(rel)
		info, err := root.Lstat(rel)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		entry := evalSetEntry{File: rel, ID: evalrun.SetName(rel), Editable: isEditableSet(rel)}
		if budget -= info.Size(); budget >= 0 {
			f, err := readSetFile(root, rel)
			if err != nil {
				entry.Problem, entry.Editable = err.Error(), false
			} else {
				n := len(f.Set.Cases)
				entry.Cases = &n
			}
		}
		sets = append(sets, entry)
	}
	return sets, nil
}

// isEditableSet reports whether ADK's routes can change a set.
func isEditableSet(file string) bool {
	return strings.HasSuffix(file, eval.SetSuffix) && !strings.Contains(file, "/")
}

// readSetWithConfig reads a set with its metrics: its own, or those in the config next to it.
func readSetWithConfig(root *os.Root, file string) (*eval.Set, *eval.Config, error) {
	f, err := readSetFile(root, file)
	if err != nil {
		return nil, nil, err
	}
	f.Set.ID = evalrun.SetName(file) // results are found by the name of the file
	dir, err := root.OpenRoot(path.Dir(file))
	if err != nil {
		return nil, nil, err
	}
	defer dir.Close()
	folder, err := readEvalConfig(dir)
	if err != nil {
		return nil, nil, err
	}
	return f.Set, evalfile.MergeConfigs(f.Config, folder), nil
}

// An evalSetView is a set with the beginnings of its cases.
type evalSetView struct {
	evalSetEntry
	Description string         `json:"description,omitempty"`
	CaseList    []evalCaseView `json:"caseList"`
	// Metrics score the cases unless a run selects others.
	Metrics []json.RawMessage `json:"metrics"`
}

// An evalCaseView is a case in a set's list.
type evalCaseView struct {
	ID string `json:"id"`
	// Turns is 0 for a case whose user is simulated.
	Turns int `json:"turns"`
	// OwnMetrics reports whether the case has its own criteria.
	OwnMetrics bool `json:"ownMetrics,omitempty"`
	// Message begins the user's first message.
	Message string `json:"message"`
}

// handleEvalSetView lists a set's cases.
func (s *handlers) handleEvalSetView(w http.ResponseWriter, r *http.Request) error {
	return s.sendEvalView(w, r, func() (any, error) {
		file := r.PathValue("file")
		root, err := s.openWritableFolder(r.PathValue("app"))
		if err != nil {
			return nil, err
		}
		defer root.Close()
		set, config, err := readSetWithConfig(root, file)
		if err != nil {
			return nil, err
		}
		n := len(set.Cases)
		view := &evalSetView{evalSetEntry{File: file, ID: set.ID, Cases: &n, Editable: isEditableSet(file)}, set.Description, make([]evalCaseView, n), []json.RawMessage{}}
		for i, c := range set.Cases {
			view.CaseList[i] = evalCaseView{c.ID, len(c.Conversation), c.Criteria != nil, cutText(firstMessage(c), maxFirstMessage)}
		}
		for _, m := range config.Measures() {
			text, err := eval.EncodeWire(m)
			if err != nil {
				return nil, err
			}
			view.Metrics = append(view.Metrics, text)
		}
		return view, nil
	})
}

func firstMessage(c *eval.Case) string {
	if c.Scenario != nil {
		return c.Scenario.StartingPrompt
	}
	var text strings.Builder
	if len(c.Conversation) > 0 && c.Conversation[0].UserContent != nil {
		for _, p := range c.Conversation[0].UserContent.Parts {
			text.WriteString(p.Text)
		}
	}
	return text.String()
}

// cutText returns the first n characters of s.
func cutText(s string, n int) string {
	for i := range s {
		if n--; n < 0 {
			return s[:i] + "…"
		}
	}
	return s
}
