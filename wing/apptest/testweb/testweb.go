// Package testweb saves sessions as app tests over HTTP, as the command record does.
package testweb

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"agenthost/internal/appfolder"
	"agenthost/pkg/loader"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/wing/apptest"
	"agenthost/wing/apptest/testcommand"
)

// Options configure the route. The zero value rejects all requests.
type Options struct {
	// Loader opens the app for its tests.
	Loader *loader.Loader
	// Folders has the app folders.
	Folders appfolder.Folders
	// Dev lets any client that may use the developer routes save tests.
	Dev bool
}

const (
	defaultFile = "saved.test.yaml"
	// maxName limits a test's name in characters.
	maxName = 200
	// testTimeout limits a new test's run.
	testTimeout = 30 * time.Second
)

// testFile matches the file names that requests may have: no folders, no hidden files.
var testFile = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}\.test\.yaml$`)

// components are the schemas for the route.
//
//go:embed components.yaml
var components []byte

type handlers struct {
	*server.Services
	opts Options
	// saving serializes the changes.
	saving sync.Mutex
}

// Extend returns an extension for servers; opts may be nil.
func Extend(opts *Options) func(*server.Services) *server.Extension {
	if opts == nil {
		opts = &Options{}
	}
	return func(s *server.Services) *server.Extension {
		h := &handlers{Services: s, opts: *opts}
		return &server.Extension{Components: components, Routes: []server.Route{
			{Method: "POST", Pattern: "…/users/{user}/sessions/{session}/save-test", Handler: h.handleSaveTest, Doc: server.Doc{Tag: "developer", ID: "saveSessionTest", Summary: "Save a session as a test of the app; requires --dev", Body: "SaveTestRequest", Answer: "SavedTest"}},
		}}
	}
}

// A savedTest is a test that was added to a file.
type savedTest struct {
	File string `json:"file"`
	Name string `json:"name"`
	// Text is the test in YAML.
	Text   string `json:"text"`
	Passed bool   `json:"passed"`
	// Report has a failed test's failures and transcript.
	Report string `json:"report,omitempty"`
	// CutOff reports that the last turn had no answer, and is not part of the test.
	CutOff bool `json:"cutOff,omitempty"`
}

// handleSaveTest adds a session, or its beginning, to an app's test file, and runs the test. It
// writes a file that the host reads: only administrators may.
func (s *handlers) handleSaveTest(w http.ResponseWriter, r *http.Request) error {
	if !s.IsPrivileged(r) {
		return server.ErrPermissionDenied
	}
	if !s.opts.Dev || s.opts.Folders == nil || s.opts.Loader == nil {
		return server.NewError(http.StatusForbidden, "Tests cannot be saved: start the server with --dev")
	}
	b, err := s.ReadBody(w, r)
	if err != nil {
		return err
	}
	saved := &savedTest{Name: strings.TrimSpace(b.ReadString("name")), File: b.ReadString("file")}
	last := b.ReadString("eventId")
	b.RejectUnknownFields("name", "file", "eventId") // without eventId, the test would have all turns
	if err := b.Err(); err != nil {
		return err
	}
	if saved.File == "" {
		saved.File = defaultFile
	}
	if !testFile.MatchString(saved.File) {
		return badRequest(fmt.Sprintf("file must be a name such as %s in the app's folder, got %q", defaultFile, saved.File))
	}
	if saved.Name == "" || len([]rune(saved.Name)) > maxName {
		return badRequest(fmt.Sprintf("name must have 1 to %d characters", maxName))
	}
	key := server.PathKey(r)
	record, err := s.readRecord(r.Context(), key, last)
	if err != nil {
		return server.WithSessionKey(key, err)
	}
	record.Name = saved.Name
	s.saving.Lock()
	defer s.saving.Unlock()
	if err := s.saveTest(r.Context(), key.App, record, saved); err != nil {
		return err
	}
	return server.WriteJSON(w, saved)
}

// readRecord returns a session with its events up to the last one; empty for all.
func (s *handlers) readRecord(ctx context.Context, key session.Key, last string) (*apptest.Record, error) {
	st := s.Host().Store()
	sess, err := st.Sessions.Get(ctx, key, nil)
	if err != nil {
		return nil, err
	}
	initial, err := st.Sessions.Initial(ctx, key)
	if err != nil {
		return nil, err
	}
	if last != "" {
		events := sess.Events()
		at := slices.IndexFunc(events, func(ev *session.Event) bool { return ev.ID == last })
		if at < 0 {
			return nil, badRequest("Event not found: " + last)
		}
		sess.History = session.NewHistory(events[:at+1])
	}
	return &apptest.Record{Session: sess, Initial: initial}, nil
}

// saveTest adds a record to a test file and runs it.
func (s *handlers) saveTest(ctx context.Context, app string, record *apptest.Record, saved *savedTest) error {
	root, err := appfolder.Open(s.opts.Folders, app)
	if errors.Is(err, fs.ErrNotExist) {
		return server.NewError(http.StatusNotFound, "App "+app+" has no folder on this server, and tests are files of the folder")
	}
	if err != nil {
		return err
	}
	dir := root.Name()
	root.Close()
	suite, ds := apptest.OpenSuite(ctx, s.opts.Loader, filepath.Clean(dir))
	if suite == nil {
		return badRequest("The app or its tests have problems:\n" + strings.Join(ds.StringsWithHints(), "\n"))
	}
	if slices.ContainsFunc(suite.Tests, func(t *apptest.Test) bool { return t.Name == saved.Name }) {
		return server.NewError(http.StatusConflict, fmt.Sprintf("The app has a test named %q: choose another name", saved.Name))
	}
	record.Own = suite.UnmockedTools
	if saved.Text, saved.CutOff, err = apptest.Make(record); err != nil {
		return badRequest("Cannot create a test from this session: " + err.Error())
	}
	tests, ds := suite.DecodeTests(saved.File, []byte(saved.Text))
	if ds.HasErrors() {
		return badRequest("The session is not a valid test of the current app:\n" + strings.Join(ds.StringsWithHints(), "\n"))
	}
	written, err := appfolder.ReadFile(s.opts.Folders, app, saved.File)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text := saved.Text
	if before := strings.TrimRight(string(written), "\n"); before != "" {
		text = before + "\n\n" + text
	}
	if ds, err = s.opts.Folders.Save(ctx, app, map[string][]byte{saved.File: []byte(text)}); err != nil {
		return err
	}
	if ds.HasErrors() {
		return badRequest("The test was not saved:\n" + strings.Join(ds.StringsWithHints(), "\n"))
	}
	ctx, cancel := context.WithTimeout(ctx, testTimeout)
	defer cancel()
	saved.Passed = true
	var report strings.Builder
	for _, t := range tests {
		if result := suite.Run(ctx, t); !result.Passed() {
			saved.Passed = false
			if err := testcommand.WriteResult(&report, result); err != nil {
				return err
			}
		}
	}
	saved.Report = report.String()
	return nil
}

func badRequest(detail string) error { return server.NewError(http.StatusBadRequest, detail) }
