// Package appfolder opens app folders for developers.
package appfolder

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"agenthost/pkg/session"
	"agenthost/pkg/spec"
)

// Folders gives developers access to app files.
type Folders interface {
	// Open opens an app's folder. The error is [session.ErrNotFound] if there is none.
	Open(app string) (*os.Root, error)
	// Save writes YAML files to an app's folder, creates the folder if needed, and waits for the
	// reload. If the diagnostics contain errors, no file is written.
	Save(ctx context.Context, app string, files map[string][]byte) (spec.Diagnostics, error)
}

// maxFileSize limits the files that developers can read.
const maxFileSize = 4 << 20

// Open opens an app's folder, which the caller closes. The error is [fs.ErrNotExist] if there is
// none, or no folders.
func Open(folders Folders, app string) (*os.Root, error) {
	if folders == nil {
		return nil, fs.ErrNotExist
	}
	root, err := folders.Open(app)
	if errors.Is(err, session.ErrNotFound) {
		err = fs.ErrNotExist
	}
	return root, err
}

// ReadFile reads a file in an app's folder. The error is [fs.ErrNotExist] if the app or the file
// does not exist.
func ReadFile(folders Folders, app, name string) ([]byte, error) {
	if !fs.ValidPath(name) {
		return nil, fs.ErrNotExist
	}
	root, err := Open(folders, app)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Stat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxFileSize {
		return nil, fs.ErrNotExist
	}
	return root.ReadFile(name)
}

// ListFiles returns the sorted names, without the suffix, of the files in a directory
// of an app's folder. A missing directory is empty.
func ListFiles(folders Folders, app, dir, suffix string) ([]string, error) {
	names := []string{}
	root, err := Open(folders, app)
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
