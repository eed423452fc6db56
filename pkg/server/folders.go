package server

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"agenthost/pkg/session"
	"agenthost/pkg/spec"
)

// Folders are the files of apps, for developers.
type Folders interface {
	// Open opens the folder of an app; [session.ErrNotFound] if there is none.
	Open(app string) (*os.Root, error)
	// Save writes YAML files into the folder of an app, which may have to be
	// made, and returns when they are taken in. With errors among the
	// diagnostics, nothing was written.
	Save(ctx context.Context, app string, files map[string][]byte) (spec.Diagnostics, error)
}

// maxAppFileSize is the largest file that is read for developers.
const maxAppFileSize = 4 << 20

// readAppFile reads a file of an app's folder. Without the app or the file the error
// is [fs.ErrNotExist].
func (s *Server) readAppFile(app, name string) ([]byte, error) {
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

func (s *Server) openFolder(app string) (*os.Root, error) {
	if s.opts.Folders == nil {
		return nil, fs.ErrNotExist
	}
	root, err := s.opts.Folders.Open(app)
	if errors.Is(err, session.ErrNotFound) {
		err = fs.ErrNotExist
	}
	return root, err
}

// listFiles lists the files of an app's folder, or of one below it, that have a
// suffix: their names without it, sorted. A folder that is not there has none.
func (s *Server) listFiles(app, dir, suffix string) ([]string, error) {
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

// readAppJSON reads a JSON file of an app's folder into v; false when there is none,
// or it is no such thing.
func (s *Server) readAppJSON(app, name string, v any) bool {
	text, err := s.readAppFile(app, name)
	return err == nil && json.Unmarshal(text, v) == nil
}

// readReadme is the text of an app's README.md; empty if it has none.
func (s *Server) readReadme(app string) string {
	text, err := s.readAppFile(app, "README.md")
	if err != nil {
		return ""
	}
	return string(text)
}
