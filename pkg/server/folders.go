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

// Folders gives developers access to the files of apps.
type Folders interface {
	// Open opens the folder of an app. The error is [session.ErrNotFound] if there is
	// none.
	Open(app string) (*os.Root, error)
	// Save writes YAML files to the folder of an app, creates the folder if needed, and
	// waits for the reload. If the diagnostics contain errors, no file is written.
	Save(ctx context.Context, app string, files map[string][]byte) (spec.Diagnostics, error)
}

// maxAppFileSize limits the files that developers can read.
const maxAppFileSize = 4 << 20

// readAppFile reads a file of an app's folder. The error is [fs.ErrNotExist] if the app
// or the file does not exist.
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

// listFiles returns the sorted names, without the suffix, of the files in a directory
// of an app's folder. A missing directory is empty.
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

// readAppJSON decodes a JSON file of an app's folder into v. It returns false if the
// file is missing or invalid.
func (s *Server) readAppJSON(app, name string, v any) bool {
	text, err := s.readAppFile(app, name)
	return err == nil && json.Unmarshal(text, v) == nil
}

// readReadme returns the content of an app's README.md, or an empty string.
func (s *Server) readReadme(app string) string {
	text, err := s.readAppFile(app, "README.md")
	if err != nil {
		return ""
	}
	return string(text)
}
