package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"agenthost/internal/command"
	"agenthost/pkg/loader"
	"agenthost/pkg/store"
)

func newRollbackCommand(env command.Env) *cobra.Command {
	var f revisionFlags
	return f.addLoadFlags(env, f.addJSONFlag(f.SetupCommand(env, &cobra.Command{
		Use:   "rollback APPDIR REVISION",
		Short: "Restore an earlier revision's files",
		Long: `Rollback writes the files of a revision into the app's folder, and deletes the other
files of the newest revision. A host that serves the folder reloads it as after any
other change. Files that differ from the newest revision are saved in .replaced
before they are overwritten or deleted. The .env file does not change.`,
		Args: command.RequireArgs(2, 2),
	}, command.ReadDatabase, func(ctx context.Context, st *store.Store, args []string) error {
		r, err := rollBack(ctx, env, st, args)
		if err != nil {
			return err
		}
		now, err := f.loadRevision(ctx, env, args[0])
		if err != nil {
			return err
		}
		if r.Current = now.ID; r.Current != r.Revision {
			fmt.Fprintf(env.Err, "with the current environment and .env, the revision is %s\n", r.Current)
		}
		if f.json {
			return env.PrintJSON(r)
		}
		return nil
	})))
}

// A restoration is what a rollback has changed.
type restoration struct {
	Revision string `json:"revision"`
	// Current is the folder's revision now. It differs if the environment or .env does.
	Current string `json:"current"`
	Written int    `json:"written"`
	Deleted int    `json:"deleted"`
	// Saved is how many files were saved in .replaced.
	Saved int `json:"saved"`
	// Shared are files that other apps use. They did not change.
	Shared []string `json:"shared"`
}

// rollBack restores a revision's files.
func rollBack(ctx context.Context, env command.Env, st *store.Store, args []string) (*restoration, error) {
	dir, app := args[0], loader.AppName(args[0])
	rev, err := st.Revisions.Get(ctx, app, args[1])
	if err != nil {
		return nil, command.FailWith(err)
	}
	newest, err := st.Revisions.List(ctx, app)
	if err != nil {
		return nil, command.FailWith(err)
	}
	now, err := st.Revisions.Get(ctx, app, newest[0].ID)
	if err != nil {
		return nil, command.FailWith(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, command.FailWith(err)
	}
	defer root.Close()
	r := &restorer{root: root, known: now.Files}
	if err := r.restoreFiles(rev.Files); err != nil {
		return nil, command.FailWith(fmt.Errorf("rolling back %s: %w", dir, err))
	}
	fmt.Fprintf(env.Err, "%s restored to revision %s: %d files written, %d deleted, %d saved in %s\n", dir, rev.ID, r.written, r.removed, r.kept, replacedDir)
	shared := []string{}
	for _, name := range r.shared {
		shared = append(shared, filepath.ToSlash(filepath.Join(dir, name)))
		fmt.Fprintf(env.Err, "%s is shared with other apps and was not changed\n", filepath.Join(dir, name))
	}
	return &restoration{Revision: rev.ID, Written: r.written, Deleted: r.removed, Saved: r.kept, Shared: shared}, nil
}

// replacedDir is the folder for files that are in no revision. Its name starts with a
// dot, so it is not part of the app.
const replacedDir = ".replaced"

// A restorer restores a revision's files in a folder.
type restorer struct {
	root *os.Root
	// known are the newest revision's files, which need no backup.
	known                  map[string][]byte
	written, removed, kept int
	// shared are files outside the folder, which other apps use. They do not change.
	shared []string
}

func (r *restorer) restoreFiles(files map[string][]byte) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !filepath.IsLocal(name) {
			r.shared = append(r.shared, name)
			continue
		}
		if err := r.writeFile(name, files[name]); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.known)) {
		if _, wanted := files[name]; wanted || !filepath.IsLocal(name) {
			continue
		}
		if err := r.backUpFile(name); err != nil {
			return err
		}
		if err := r.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		r.removed++
	}
	return nil
}

// writeFile replaces a file atomically.
func (r *restorer) writeFile(name string, content []byte) error {
	if now, err := r.root.ReadFile(name); err == nil && bytes.Equal(now, content) {
		return nil
	}
	if err := r.backUpFile(name); err != nil {
		return err
	}
	if err := r.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	temp := path.Join(path.Dir(name), ".rollback-"+path.Base(name))
	if err := r.root.WriteFile(temp, content, 0o644); err != nil {
		return err
	}
	r.written++
	return r.root.Rename(temp, name)
}

// backUpFile saves a file in replacedDir if it differs from the newest revision.
func (r *restorer) backUpFile(name string) error {
	now, err := r.root.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || bytes.Equal(now, r.known[name]) {
		return err
	}
	backup := filepath.ToSlash(filepath.Join(replacedDir, name))
	if err := r.root.MkdirAll(path.Dir(backup), 0o755); err != nil {
		return err
	}
	r.kept++
	return r.root.WriteFile(backup, now, 0o644)
}
