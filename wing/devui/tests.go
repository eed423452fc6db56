package devui

import (
	"encoding/json"
	"net/http"
	"path"
	"strings"

	"agenthost/internal/appfolder"
	"agenthost/pkg/server"
)

// Names for the tests that ADK's web client records, in an app's folder.
const (
	testFolder = "tests"
	testSuffix = ".json"
)

var errNoRecordedTests = server.NewError(http.StatusNotImplemented, "ADK's recorded tests cannot be changed or run here: use agenthost test for an app's *.test.yaml files")

func rejectWith(err error) server.Handler {
	return func(http.ResponseWriter, *http.Request) error { return err }
}

// handleTests lists the tests recorded with ADK's web client.
func (s *handlers) handleTests(w http.ResponseWriter, r *http.Request) error {
	names, err := appfolder.ListFiles(s.opts.Folders, r.PathValue("app"), testFolder, testSuffix)
	if err != nil {
		return err
	}
	for i := range names {
		names[i] += testSuffix
	}
	return server.WriteJSON(w, names)
}

func (s *handlers) handleTest(w http.ResponseWriter, r *http.Request) error {
	name := strings.TrimSuffix(r.PathValue("name"), testSuffix)
	text, err := appfolder.ReadFile(s.opts.Folders, r.PathValue("app"), path.Join(testFolder, name+testSuffix))
	if strings.Contains(name, "/") || err != nil || !json.Valid(text) {
		return server.NewError(http.StatusNotFound, "Test file not found")
	}
	server.WriteRawJSON(w, http.StatusOK, text)
	return nil
}
