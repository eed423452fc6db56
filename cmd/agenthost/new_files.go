package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"text/template"

	"agenthost/internal/command"
	"agenthost/pkg/spec"
)

// newFiles are the files for new apps. Each folder is a template, and the files next to the folders
// belong to every app, except for the shared blocks in newParts.
//
//go:embed all:new
var newFiles embed.FS

const (
	newFolder = "new"
	newParts  = "parts.tmpl"
)

// templateNames returns the names of new's templates.
func templateNames() []string { return []string{"chat", "team", "tools", "rag", "openapi", "mcp"} }

// A newApp is the input for new's templates.
type newApp struct {
	// Name is the app's name.
	Name     string
	Template string
	// Model is the model's name; empty is the scripted model.
	Model string
	// keys are the environment variables that may hold the model's key, the usual one
	// first.
	keys []string
	// missing are the variables that are required and not set.
	missing []string
}

// Key returns the usual environment variable for the model's key, empty if it needs none.
func (a *newApp) Key() string { return strings.Join(a.keys[:min(1, len(a.keys))], "") }

// Variables returns the variables for .env.example: those that are missing, or else the key's.
func (a *newApp) Variables() []string {
	if len(a.missing) > 0 {
		return a.missing
	}
	return a.keys[:min(1, len(a.keys))]
}

// IsScripted reports whether the app answers from a script.
func (a *newApp) IsScripted() bool { return a.Model == "" }

// Agent returns the app's name as an agent name.
func (a *newApp) Agent() string { return strings.ReplaceAll(a.Name, "-", "_") }

// createFolder writes the app into a new folder, with missing parents. If it fails, for
// example because no provider has the model, it removes everything that it created.
func (a *newApp) createFolder(ctx context.Context, dir string) (err error) {
	parent := filepath.Dir(dir)
	removeParents, err := createParents(parent)
	if err != nil {
		return failToCreate(dir, err)
	}
	defer func() {
		if err != nil {
			removeParents()
		}
	}()
	// A host that serves the parent ignores folders that begin with a dot, so it never sees
	// an incomplete app.
	draft, err := os.MkdirTemp(parent, ".agenthost-new-")
	if err != nil {
		return failToCreate(dir, err)
	}
	defer os.RemoveAll(draft)
	app := filepath.Join(draft, a.Name)
	if err := a.writeFiles(app); err != nil {
		return failToCreate(dir, err)
	}
	if !a.IsScripted() {
		if err := checkModel(ctx, app, a.Model); err != nil {
			return err
		}
	}
	return failToCreate(dir, os.Rename(app, dir))
}

// createParents creates a folder with its parents. The returned function removes those
// that it created.
func createParents(dir string) (remove func(), err error) {
	var missing []string
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(at); !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			break
		}
		missing = append(missing, at)
	}
	remove = func() {
		for _, at := range missing {
			_ = os.Remove(at) // another program may use it by now
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		remove()
		return nil, err
	}
	return remove, nil
}

// failToCreate returns the error from creating an app, without its draft's paths; nil stays nil.
func failToCreate(dir string, err error) error {
	var at *fs.PathError
	var link *os.LinkError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &at):
		err = at.Err
	case errors.As(err, &link):
		err = link.Err
	}
	return command.FailWithf("cannot create %s: %w", dir, err)
}

func (a *newApp) writeFiles(dir string) error {
	files, err := a.renderFiles()
	if err != nil {
		return err
	}
	for file, content := range files {
		full := filepath.Join(dir, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(full, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// renderFiles returns the app's files by path.
func (a *newApp) renderFiles() (map[string][]byte, error) {
	files := map[string][]byte{}
	err := fs.WalkDir(newFiles, newFolder, func(file string, d fs.DirEntry, err error) error {
		folder := path.Join(newFolder, a.Template)
		switch {
		case err != nil:
			return err
		case d.IsDir() && path.Dir(file) == newFolder && file != folder:
			return fs.SkipDir
		case d.IsDir() || path.Base(file) == newParts:
			return nil
		}
		name := strings.TrimPrefix(strings.TrimPrefix(file, folder+"/"), newFolder+"/")
		files[name], err = a.renderFile(file)
		return err
	})
	return files, err
}

func (a *newApp) renderFile(file string) ([]byte, error) {
	// The delimiters are those that the files do not use otherwise.
	t, err := template.New(path.Base(file)).Delims("[[", "]]").ParseFS(newFiles, path.Join(newFolder, newParts), file)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, a); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// checkModel returns an error that states why the loader rejects an app's model.
func checkModel(ctx context.Context, dir, model string) error {
	for _, d := range newLoader(nil).Check(ctx, dir) {
		switch {
		case d.Rule == "model" && d.Severity == spec.Warning: // a name without a provider
			return fmt.Errorf("--model %s: unknown model\nhint: write PROVIDER/%[1]s, such as ollama/%[1]s or openai/%[1]s", model)
		case d.Rule == "model" || d.Severity == spec.Error:
			return fmt.Errorf("--model %s: %s\nhint: %s", model, d.Message, d.Hint)
		}
	}
	return nil
}
