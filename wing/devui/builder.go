package devui

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"agenthost/internal/appfolder"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
)

var errDevDisabled = server.NewError(http.StatusForbidden, "App files are not available: start the server with --dev")

// handleBuilderFile returns an app's YAML file, or its draft if the client asks for it. A
// missing file is an empty response: ADK's web client then treats the app as not editable.
func (s *handlers) handleBuilderFile(w http.ResponseWriter, r *http.Request) error {
	if !s.opts.Dev {
		return errDevDisabled
	}
	tmp, err := server.ReadQueryFlag(r, "tmp")
	if err != nil {
		return err
	}
	name := r.URL.Query().Get("file_path")
	if name == "" {
		name = rootAgentFile
	}
	text, err := s.readBuilderFile(r.PathValue("app"), path.Clean(name), tmp)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/x-yaml")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(name)}))
	_, _ = w.Write(text)
	return nil
}

func (s *handlers) readBuilderFile(app, name string, tmp bool) ([]byte, error) {
	if ext := path.Ext(name); ext != ".yaml" && ext != ".yml" {
		return nil, fs.ErrNotExist
	}
	if text, ok := s.drafts.get(app)[name]; ok && tmp {
		return text, nil
	}
	return appfolder.ReadFile(s.opts.Folders, app, name)
}

// handleBuilderSave stores files as the app's draft, or writes them together with the
// draft to the app's folder. Fields that the builder does not support are kept.
func (s *handlers) handleBuilderSave(w http.ResponseWriter, r *http.Request) error {
	return s.saveBuilderForm(w, r, r.PathValue("app"))
}

// handleBuilderSaveAny is handleBuilderSave for a path without an app: file names start
// with the app.
func (s *handlers) handleBuilderSaveAny(w http.ResponseWriter, r *http.Request) error {
	return s.saveBuilderForm(w, r, "")
}

func (s *handlers) saveBuilderForm(w http.ResponseWriter, r *http.Request, app string) error {
	tmp, err := server.ReadQueryFlag(r, "tmp")
	if err != nil {
		return err
	}
	if !s.opts.Dev || s.opts.Folders == nil {
		return errDevDisabled
	}
	u := &upload{app: app, files: map[string][]byte{}}
	r.Body = http.MaxBytesReader(w, r.Body, s.MaxBody())
	if err := u.readForm(r); err != nil {
		return err
	}
	if tmp {
		if !s.drafts.put(u.app, u.files) {
			return badRequest(fmt.Sprintf("Draft exceeds the limit of %d files or %d MiB", maxDraftFiles, maxDraftBytes>>20))
		}
		return server.WriteJSON(w, true)
	}
	return s.saveDraft(w, r, u)
}

func (s *handlers) saveDraft(w http.ResponseWriter, r *http.Request, u *upload) error {
	files := map[string][]byte{}
	maps.Copy(files, s.drafts.get(u.app))
	maps.Copy(files, u.files)
	files, kept := s.mergeBuilderFiles(u.app, files)
	ds, err := s.opts.Folders.Save(r.Context(), u.app, files)
	switch {
	case err != nil:
		return server.WithSessionKey(session.Key{App: u.app}, err)
	case ds.HasErrors():
		return badRequest("Nothing was saved: the files have errors:\n" + strings.Join(ds.Strings(), "\n"))
	}
	s.drafts.delete(u.app)
	if len(kept) > 0 {
		s.Logger().Info("kept fields that the visual builder does not support", "app", u.app, "fields", kept)
		w.Header().Set("X-Kept-Fields", strings.Join(kept, ", "))
	}
	return server.WriteJSON(w, true)
}

func (s *handlers) handleBuilderCancel(w http.ResponseWriter, r *http.Request) error {
	if !s.opts.Dev {
		return errDevDisabled
	}
	s.drafts.delete(r.PathValue("app"))
	return server.WriteJSON(w, true)
}

// An upload holds a form's files by their paths in the app's folder.
type upload struct {
	app   string
	files map[string][]byte
}

// readForm reads the form's YAML files. File names may start with the app; if the path
// names no app, they must.
func (u *upload) readForm(r *http.Request) error {
	form, err := r.MultipartReader()
	if err != nil {
		return badRequest("Request body must be a multipart form")
	}
	for {
		part, err := form.NextRawPart()
		switch {
		case errors.Is(err, io.EOF) && len(u.files) == 0:
			return badRequest("The form has no files")
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return wrapFormError(err)
		case part.FormName() != "files":
			continue
		}
		text, err := io.ReadAll(part)
		if err != nil {
			return wrapFormError(err)
		}
		if err := u.addFile(partFileName(part), text); err != nil {
			return err
		}
	}
}

// wrapFormError preserves errors about the body's size and deadline.
func wrapFormError(err error) error {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return err
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return server.WrapBodyError(err)
	}
	return badRequest("Cannot read the multipart form")
}

// partFileName returns a part's full file name. The standard library's FileName drops the
// folders.
func partFileName(p *multipart.Part) string {
	_, params, err := mime.ParseMediaType(p.Header.Get("Content-Disposition"))
	if err != nil {
		return ""
	}
	return strings.ReplaceAll(params["filename"], `\`, "/")
}

func (u *upload) addFile(name string, text []byte) error {
	app, rest, nested := strings.Cut(name, "/")
	switch {
	case u.app == "" && nested && app != "":
		u.app = app
		name = rest
	case nested && app == u.app:
		name = rest
	case u.app == "":
		return badRequest("File " + name + " has no app: name it APP/" + name)
	}
	if !fs.ValidPath(name) || strings.Contains(name, ":") || path.Ext(name) != ".yaml" && path.Ext(name) != ".yml" {
		return badRequest("File " + name + " must be a .yaml or .yml file in the app's folder")
	}
	if _, ds := spec.Parse(name, text); ds.HasErrors() {
		return badRequest(ds.Error())
	}
	u.files[name] = text
	return nil
}

// Limits for unsaved files in the visual builder.
const (
	maxDrafts     = 32
	maxDraftFiles = 200
	maxDraftBytes = 8 << 20
)

// draftStore holds the visual builder's unsaved files by app. Drafts are kept in memory only
// and are lost on restart. Above maxDrafts the least recently changed draft is dropped.
type draftStore struct {
	mu    sync.Mutex
	apps  map[string]map[string][]byte
	order []string // app names, most recently changed last
}

// put adds files to an app's draft. It returns false if the draft would exceed its
// limits.
func (d *draftStore) put(app string, files map[string][]byte) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := maps.Clone(d.apps[app])
	if next == nil {
		next = map[string][]byte{}
	}
	maps.Copy(next, files)
	size := 0
	for _, text := range next {
		size += len(text)
	}
	if len(next) > maxDraftFiles || size > maxDraftBytes {
		return false
	}
	if d.apps == nil {
		d.apps = map[string]map[string][]byte{}
	}
	d.apps[app] = next
	d.order = append(slices.DeleteFunc(d.order, func(name string) bool { return name == app }), app)
	if len(d.order) > maxDrafts {
		delete(d.apps, d.order[0])
		d.order = d.order[1:]
	}
	return true
}

// get returns the files in an app's draft, which must not be modified.
func (d *draftStore) get(app string) map[string][]byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.apps[app]
}

func (d *draftStore) delete(app string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.apps, app)
	d.order = slices.DeleteFunc(d.order, func(name string) bool { return name == app })
}

func (d *draftStore) appNames() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.order)
}
