package evalweb

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"agenthost/internal/appfolder"
	"agenthost/internal/limit"
	"agenthost/internal/regular"
	"agenthost/pkg/server"
	"agenthost/pkg/spec"
	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalfile"
	"agenthost/wing/evaluation/evalrun"
)

var errEvalSetsReadOnly = forbiddenError("Eval sets cannot be changed: start the server with --dev")

func evalSetNotFound(name string) error { return notFoundError("Eval set `" + name + "` not found.") }

// sendEval sends a value from package eval within the limit for large responses.
func (s *handlers) sendEval(w http.ResponseWriter, r *http.Request, read func() (any, error)) error {
	return s.WriteLarge(w, r, false, func() ([]byte, error) {
		v, err := read()
		if err != nil {
			return nil, err
		}
		return eval.EncodeWire(v)
	})
}

// requireEvalEdits rejects requests unless developers may write app files.
func (s *handlers) requireEvalEdits(h server.Handler) server.Handler {
	if !s.opts.Dev || s.opts.Folders == nil {
		return rejectWith(errEvalSetsReadOnly)
	}
	return h
}

// handleListEvalSets lists an app's set names, as a list or in the given field of an object.
func (s *handlers) handleListEvalSets(field string) server.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		names := []string{}
		for _, suffix := range setSuffixes() {
			more, err := appfolder.ListFiles(s.opts.Folders, r.PathValue("app"), ".", suffix)
			if err != nil {
				return err
			}
			names = append(names, more...)
		}
		slices.Sort(names)
		return server.WriteJSON(w, wrapNames(slices.Compact(names), field))
	}
}

// readEvalSet reads the set in the path.
func (s *handlers) readEvalSet(r *http.Request) (*evalrun.SetFile, error) {
	name := r.PathValue("name")
	root, err := appfolder.Open(s.opts.Folders, r.PathValue("app"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, evalSetNotFound(name)
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return readEvalFile(root, name)
}

// readEvalFile reads a set in an app's folder by its name: in an ADK form, which has no
// config, or else in YAML.
func readEvalFile(root *os.Root, name string) (*evalrun.SetFile, error) {
	for _, suffix := range setSuffixes() {
		if isRegularFile(root, ".", name, suffix) {
			return readSetFile(root, name+suffix)
		}
	}
	return nil, evalSetNotFound(name)
}

// readSetFile reads a set in any form by its path in an app's folder.
func readSetFile(root *os.Root, file string) (*evalrun.SetFile, error) {
	missing := notFoundError("Eval set file `" + file + "` not found.")
	if !fs.ValidPath(file) || evalrun.SetName(file) == path.Base(file) {
		return nil, missing
	}
	info, err := root.Lstat(file)
	if err != nil || !info.Mode().IsRegular() {
		return nil, missing
	}
	text, err := readLimited(root, file)
	if err != nil {
		return nil, err
	}
	set, err := evalrun.DecodeSet(file, text, &evalfile.Names{})
	return set, wrapEvalFileError(err)
}

// readEvalConfig reads the config in an app's folder, or returns nil if there is none.
func readEvalConfig(root *os.Root) (*eval.Config, error) {
	if !isRegularFile(root, ".", eval.ConfigFile, "") {
		return nil, nil
	}
	text, err := readLimited(root, eval.ConfigFile)
	if err != nil {
		return nil, err
	}
	config, ds := evalfile.ReadConfig(eval.ConfigFile, text, &evalfile.Names{})
	return config, wrapEvalFileError(ds.Err())
}

// editEvalSet changes the set in the path. Edits are serialized, and the file is replaced
// atomically.
func (s *handlers) editEvalSet(r *http.Request, change func(*eval.Set) error) error {
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
	set, err := readEvalSet(root, name)
	if err != nil {
		return err
	}
	if err := change(set); err != nil {
		return err
	}
	return writeEvalSet(root, name, set)
}

// rejectEvalFile rejects a change to a set in YAML, which would lose its comments.
func rejectEvalFile(root *os.Root, name string) error {
	if isRegularFile(root, ".", name, eval.SetSuffix) {
		return nil
	}
	for _, suffix := range evalfile.YAMLSuffixes() {
		if isRegularFile(root, ".", name, suffix) {
			return forbiddenError("Eval set `" + name + "` cannot be changed over HTTP: edit the file " + name + suffix)
		}
	}
	return nil
}

// setSuffixes end eval set names. ADK's routes change the sets in JSON.
func setSuffixes() []string { return append([]string{eval.SetSuffix}, evalfile.YAMLSuffixes()...) }

// openWritableFolder opens an app's folder for changes by developers.
func (s *handlers) openWritableFolder(app string) (*os.Root, error) {
	root, err := appfolder.Open(s.opts.Folders, app)
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		return root, err
	case s.Host().App(app) == nil:
		return nil, appNotFound(app)
	default:
		return nil, notFoundError("App " + app + " has no folder on this server, and eval sets are files of the folder")
	}
}

// readEvalSet reads a set, in any ADK form, from an app's folder, to change it.
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

// isRegularFile reports whether a directory in a folder has a file with this name and suffix.
// Links do not count, as in lists.
func isRegularFile(root *os.Root, dir, name, suffix string) bool {
	if eval.CheckPathSegment(name) != nil {
		return false
	}
	info, err := root.Lstat(path.Join(dir, name+suffix))
	return err == nil && info.Mode().IsRegular()
}

// readLimited reads a file up to package eval's limit; that package reports a larger one.
func readLimited(root *os.Root, file string) ([]byte, error) {
	f, err := regular.Open(root.OpenFile, file, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, int64(limit.EvalFile.Bytes)+1))
}

// wrapEvalFileError makes a file's problems the response's detail.
func wrapEvalFileError(err error) error {
	var ds spec.Diagnostics
	if errors.As(err, &ds) {
		return badRequest("Cannot read the file:\n" + strings.Join(ds.StringsWithHints(), "\n"))
	}
	return err
}

// writeEvalSet replaces a set file atomically.
func writeEvalSet(root *os.Root, name string, set *eval.Set) error {
	return wrapWriteError(evalfile.WriteSet(root, name, set))
}

// wrapWriteError reports a folder that the server may not write.
func wrapWriteError(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return forbiddenError("Eval sets cannot be changed: the server has no permission to write to the app's folder")
	}
	return err
}

// wrapNames returns names as a list or in the given field of an object.
func wrapNames(names []string, field string) any {
	if field == "" {
		return names
	}
	return map[string][]string{field: names}
}

func rejectWith(err error) server.Handler {
	return func(http.ResponseWriter, *http.Request) error { return err }
}

func badRequest(detail string) error { return server.NewError(http.StatusBadRequest, detail) }

func notFoundError(detail string) error { return server.NewError(http.StatusNotFound, detail) }

func forbiddenError(detail string) error { return server.NewError(http.StatusForbidden, detail) }

func appNotFound(app string) error { return notFoundError("App not found: " + app) }
