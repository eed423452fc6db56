package server

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"

	"agenthost/pkg/session"
)

const (
	rootAgentFile = "root_agent.yaml"
	appFile       = "app.yaml"
)

// maxAppFileSize limits the files that developers can read.
const maxAppFileSize = 4 << 20

// readAppFile reads a file of an app's folder. The error is [fs.ErrNotExist] if the app
// or the file does not exist.
func (s *Services) readAppFile(app, name string) ([]byte, error) {
	if !fs.ValidPath(name) {
		return nil, fs.ErrNotExist
	}
	root, err := s.openFolder(app)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Stat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxAppFileSize {
		return nil, fs.ErrNotExist
	}
	return root.ReadFile(name)
}

func (s *Services) openFolder(app string) (*os.Root, error) {
	if s.opts.Folders == nil {
		return nil, fs.ErrNotExist
	}
	root, err := s.opts.Folders.Open(app)
	if errors.Is(err, session.ErrNotFound) {
		err = fs.ErrNotExist
	}
	return root, err
}

// listFiles returns the sorted names, without the suffix, of the files in a directory
// of an app's folder. A missing directory is empty.
func (s *Services) listFiles(app, dir, suffix string) ([]string, error) {
	names := []string{}
	root, err := s.openFolder(app)
	if errors.Is(err, fs.ErrNotExist) {
		return names, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), suffix); ok && e.Type().IsRegular() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// readReadme returns the content of an app's README.md, or an empty string.
func (s *Services) readReadme(app string) string {
	text, err := s.readAppFile(app, "README.md")
	if err != nil {
		return ""
	}
	return string(text)
}

// Names of the tests that ADK's web client records, in an app's folder.
const (
	testFolder = "tests"
	testSuffix = ".json"
)

var errNoRecordedTests = NewError(http.StatusNotImplemented, "ADK's recorded tests cannot be changed or run here: use agenthost test for the *.test.yaml files of an app")

func rejectWith(err error) Handler {
	return func(http.ResponseWriter, *http.Request) error { return err }
}

// handleTests lists the tests recorded with ADK's web client.
func (s *Services) handleTests(w http.ResponseWriter, r *http.Request) error {
	names, err := s.listFiles(r.PathValue("app"), testFolder, testSuffix)
	if err != nil {
		return err
	}
	for i := range names {
		names[i] += testSuffix
	}
	return WriteJSON(w, names)
}

func (s *Services) handleTest(w http.ResponseWriter, r *http.Request) error {
	name := strings.TrimSuffix(r.PathValue("name"), testSuffix)
	text, err := s.readAppFile(r.PathValue("app"), path.Join(testFolder, name+testSuffix))
	if strings.Contains(name, "/") || err != nil || !json.Valid(text) {
		return notFoundError("Test file not found")
	}
	WriteRawJSON(w, http.StatusOK, text)
	return nil
}

func writeNames(w http.ResponseWriter, names []string, field string) error {
	return WriteJSON(w, wrapNames(names, field))
}

// wrapNames returns names as a list or in the given field of an object.
func wrapNames(names []string, field string) any {
	if field == "" {
		return names
	}
	return map[string][]string{field: names}
}
