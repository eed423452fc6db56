package server

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"agenthost/pkg/eval"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
)

// Names of ADK's evaluation files in an app's folder.
const (
	evalSetSuffix    = ".evalset.json"
	evalHistory      = ".adk/eval_history"
	evalResultSuffix = eval.ResultSuffix
)

// maxEvalFile is the size in bytes that package eval reads at most.
const maxEvalFile = 64 << 20

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
	if !isRegularFile(root, name, evalSetSuffix) {
		return nil, evalSetNotFound(name)
	}
	file := name + evalSetSuffix
	text, err := readLimited(root, file)
	if err != nil {
		return nil, err
	}
	turns := 0
	set, err := eval.ReadSet(file, text, &eval.ReadOptions{
		SetID: name, Now: func() time.Time { return time.Unix(0, 0) },
		NewID: func() string { turns++; return fmt.Sprintf("turn-%d", turns) },
	})
	return set, wrapEvalFileError(err)
}

// isRegularFile reports whether a folder has a file with this name and suffix. Links do
// not count, as in lists.
func isRegularFile(root *os.Root, name, suffix string) bool {
	if eval.CheckPathSegment(name) != nil {
		return false
	}
	info, err := root.Lstat(name + suffix)
	return err == nil && info.Mode().IsRegular()
}

// readLimited reads a file up to the limit of package eval, which reports a larger one.
func readLimited(root *os.Root, file string) ([]byte, error) {
	f, err := root.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxEvalFile+1))
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
	if len(text) > maxEvalFile {
		return &session.LimitError{Part: "eval set", Limit: maxEvalFile, Hint: "split it into several sets"}
	}
	// The watch of the loader ignores names that begin with a dot.
	draft := "." + name + evalSetSuffix + ".new"
	if err := root.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return wrapWriteError(err)
	}
	f, err := root.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return wrapWriteError(err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = root.Rename(draft, name+evalSetSuffix)
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
