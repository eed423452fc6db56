package main

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"agenthost/pkg/loader"
)

// newFiles are the files of a new app. APPNAME and AGENTNAME are placeholders.
//
//go:embed new
var newFiles embed.FS

func newNewCommand(io stdio) *cobra.Command {
	return &cobra.Command{
		Use:   "new DIR",
		Short: "Create a new app",
		Long: `New creates a small app in a new folder DIR. It answers from a script, without an
API key or network access, until you configure a model.`,
		Args: requireArgs(1, 1),
		RunE: func(_ *cobra.Command, args []string) error { return writeNewApp(io, args[0]) },
	}
}

func writeNewApp(io stdio, dir string) error {
	if err := loader.CheckAppName(dir); err != nil {
		return failWith(err)
	}
	if err := os.MkdirAll(filepath.Dir(filepath.Clean(dir)), 0o755); err != nil {
		return failWith(err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return failWithf("%s already exists: new requires a new folder", dir)
		}
		return failWith(err)
	}
	files, err := newAppFiles(loader.AppName(dir))
	if err != nil {
		return failWith(err)
	}
	for file, content := range files {
		full := filepath.Join(dir, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			return failWith(err)
		}
		if err := os.WriteFile(full, content, 0o644); err != nil {
			return failWith(err)
		}
	}
	fmt.Fprintf(io.out, "Wrote %s. Talk to it:\n\n  agenthost run %s\n\nEdit the files while you chat: the next answer uses the saved version.\n", dir, dir)
	return nil
}

// newAppFiles returns the files of a new app by path, including the schemas for editors.
func newAppFiles(name string) (map[string][]byte, error) {
	files := map[string][]byte{}
	agent := strings.ReplaceAll(name, "-", "_")
	err := fs.WalkDir(newFiles, "new", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := newFiles.ReadFile(file)
		text := strings.ReplaceAll(string(b), "APPNAME", name)
		files[strings.TrimPrefix(file, "new/")] = []byte(strings.ReplaceAll(text, "AGENTNAME", agent))
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, s := range loader.SchemaNames() {
		schema, err := newLoader(nil).Schema(s)
		if err != nil {
			return nil, err
		}
		b, err := json.MarshalIndent(schema, "", "  ")
		if err != nil {
			return nil, err
		}
		files[path.Join(".schemas", s+".json")] = append(b, '\n')
	}
	return files, nil
}
