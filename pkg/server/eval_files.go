package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"google.golang.org/genai"

	"agenthost/pkg/eval"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
)

const errEvalSetsReadOnly = forbiddenError("Eval sets cannot be changed: start the server with --dev")

// sendEval sends a value of package eval within the limit of large responses.
func (s *Server) sendEval(w http.ResponseWriter, r *http.Request, read func() (any, error)) error {
	return s.responses.sendResponse(w, r, responseRequest{encode: func() ([]byte, error) {
		v, err := read()
		if err != nil {
			return nil, err
		}
		return eval.EncodeWire(v)
	}})
}

// requireEvalEdits rejects requests unless developers may write the files of apps.
func (s *Server) requireEvalEdits(h handler) handler {
	if !s.opts.Dev || s.opts.Folders == nil {
		return rejectWith(errEvalSetsReadOnly)
	}
	return h
}

// readEvalSet reads the set in the path.
func (s *Server) readEvalSet(r *http.Request) (*eval.Set, error) {
	name := r.PathValue("name")
	root, err := s.openFolder(r.PathValue("app"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, evalSetNotFound(name)
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return readEvalSet(root, name)
}

// editEvalSet changes the set in the path. Edits are serialized, and the file is replaced
// atomically.
func (s *Server) editEvalSet(r *http.Request, change func(*eval.Set) error) error {
	root, err := s.openWritableFolder(r.PathValue("app"))
	if err != nil {
		return err
	}
	defer root.Close()
	s.evalEdits.Lock()
	defer s.evalEdits.Unlock()
	name := r.PathValue("name")
	set, err := readEvalSet(root, name)
	if err != nil {
		return err
	}
	if err := change(set); err != nil {
		return err
	}
	return writeEvalSet(root, name, set)
}

// openWritableFolder opens the folder of an app for changes by developers.
func (s *Server) openWritableFolder(app string) (*os.Root, error) {
	root, err := s.openFolder(app)
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		return root, err
	case s.host.App(app) == nil:
		return nil, appNotFound(app)
	default:
		return nil, notFoundError("App " + app + " has no folder on this server, and eval sets are files of the folder")
	}
}

// readEvalSet reads a set, in any form of ADK, from the folder of an app.
func readEvalSet(root *os.Root, name string) (*eval.Set, error) {
	if !isRegularFile(root, ".", name, eval.SetSuffix) {
		return nil, evalSetNotFound(name)
	}
	file := name + eval.SetSuffix
	text, err := readLimited(root, file)
	if err != nil {
		return nil, err
	}
	set, err := eval.ReadSet(file, text, eval.ReproducibleOptions(name))
	return set, wrapEvalFileError(err)
}

// isRegularFile reports whether a directory of a folder has a file with this name and
// suffix. Links do not count, as in lists.
func isRegularFile(root *os.Root, dir, name, suffix string) bool {
	if eval.CheckPathSegment(name) != nil {
		return false
	}
	info, err := root.Lstat(path.Join(dir, name+suffix))
	return err == nil && info.Mode().IsRegular()
}

// readLimited reads a file up to the limit of package eval, which reports a larger one.
func readLimited(root *os.Root, file string) ([]byte, error) {
	f, err := root.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, eval.MaxFile+1))
}

// wrapEvalFileError makes the problems of a file the detail of the response.
func wrapEvalFileError(err error) error {
	var ds spec.Diagnostics
	if errors.As(err, &ds) {
		return badRequest("Cannot read the file:\n" + strings.Join(ds.Strings(), "\n"))
	}
	return err
}

// writeEvalSet replaces the file of a set atomically.
func writeEvalSet(root *os.Root, name string, set *eval.Set) error {
	text, err := eval.EncodeFile(set)
	if err != nil {
		return err
	}
	if len(text) > eval.MaxFile {
		return &session.LimitError{Part: "eval set", Limit: eval.MaxFile, Hint: "split it into several sets"}
	}
	// The watch of the loader ignores names that begin with a dot.
	draft := "." + name + eval.SetSuffix + ".new"
	if err := root.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return wrapWriteError(err)
	}
	f, err := root.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return wrapWriteError(err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = root.Rename(draft, name+eval.SetSuffix)
	}
	if err != nil {
		_ = root.Remove(draft)
	}
	return wrapWriteError(err)
}

// wrapWriteError reports a folder that the server may not write.
func wrapWriteError(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return forbiddenError("Eval sets cannot be changed: the server has no permission to write to the app's folder")
	}
	return err
}

// handleEvalResult responds with a result, in the form that ADK's web client can show.
func (s *Server) handleEvalResult(w http.ResponseWriter, r *http.Request) error {
	return s.sendEval(w, r, func() (any, error) {
		result, err := s.readEvalResult(r)
		if err != nil {
			return nil, err
		}
		for _, c := range result.Cases {
			adaptCaseResult(c)
		}
		return result, nil
	})
}

// readEvalResult reads the result in the path. As in ADK, an invalid file is 404.
func (s *Server) readEvalResult(r *http.Request) (*eval.SetResult, error) {
	name := strings.TrimSuffix(r.PathValue("name"), eval.ResultSuffix)
	missing := notFoundError("Eval set result `" + name + "` not found.")
	root, err := s.openFolder(r.PathValue("app"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, missing
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if !isRegularFile(root, eval.HistoryFolder, name, eval.ResultSuffix) {
		return nil, missing
	}
	text, err := readLimited(root, path.Join(eval.HistoryFolder, name+eval.ResultSuffix))
	if err != nil {
		return nil, err
	}
	result, err := eval.ReadResult(name+eval.ResultSuffix, text)
	var ds spec.Diagnostics
	if errors.As(err, &ds) {
		return nil, notFoundError("Cannot read the file:\n" + strings.Join(ds.Strings(), "\n"))
	}
	return result, err
}

// adaptCaseResult removes the metrics without a threshold, which ADK's web client counts
// as failed, adds the empty fields without which it fails, and converts the session.
func adaptCaseResult(c *eval.CaseResult) {
	c.Session = convertKeys(c.Session)
	c.Overall = withoutInformational(c.Overall)
	for _, t := range c.Turns {
		t.Metrics = withoutInformational(t.Metrics)
		for _, inv := range []*eval.Invocation{t.Actual, t.Expected} {
			if inv == nil {
				continue
			}
			if inv.Intermediate == nil {
				inv.Intermediate = &eval.Intermediate{}
			}
			if inv.FinalResponse == nil || len(inv.FinalResponse.Parts) == 0 {
				inv.FinalResponse = genai.NewContentFromText("", genai.RoleModel)
			}
		}
	}
}

func withoutInformational(all []*eval.MetricResult) []*eval.MetricResult {
	return slices.DeleteFunc(all, func(m *eval.MetricResult) bool { return m.Status == eval.Informational })
}

// convertKeys converts the keys of ADK's files to camelCase.
func convertKeys(text []byte) []byte {
	var v any
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return text
	}
	renamed, err := encodeJSON(renameKeys(v))
	if err != nil {
		return text
	}
	return renamed
}

// renameKeys converts keys to camelCase, except for those within values of any form.
func renameKeys(v any) any {
	switch v := v.(type) {
	case map[string]any:
		renamed := make(map[string]any, len(v))
		for key, value := range v {
			if !slices.Contains([]string{"state", "args", "response", "stateDelta", "state_delta"}, key) {
				value = renameKeys(value)
			}
			renamed[toCamelCase(key)] = value
		}
		return renamed
	case []any:
		for i := range v {
			v[i] = renameKeys(v[i])
		}
	}
	return v
}

func toCamelCase(key string) string {
	words := strings.Split(key, "_")
	for i, word := range words[1:] {
		if word != "" {
			words[i+1] = strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return strings.Join(words, "")
}
