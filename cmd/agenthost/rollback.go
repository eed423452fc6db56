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

	"agenthost/pkg/loader"
	"agenthost/pkg/store"
)

func newRollback(io stdio) *cobra.Command {
	var f revisionFlags
	return f.addLoadFlags(f.setupCommand(&cobra.Command{
		Use:   "rollback APPDIR REVISION",
		Short: "Give an app's folder the files of an earlier revision",
		Long: `Rollback writes the files of a revision into the app's folder, and takes away
what the newest revision has beside them; a host that serves the folder takes
that in as any other change. What is replaced and is not of the newest revision
is kept beside it in .replaced. The .env stays as it is.`,
		Args: requireArgs(2, 2),
	}, requireDatabase, func(ctx context.Context, st *store.Store, args []string) error {
		id, err := rollBack(ctx, io, st, args)
		if err != nil {
			return err
		}
		return f.reportOtherRevision(ctx, io, args[0], id)
	}))
}

// rollBack gives the folder the files, and returns the revision's whole id.
func rollBack(ctx context.Context, io stdio, st *store.Store, args []string) (id string, err error) {
	dir, app := args[0], loader.AppName(args[0])
	rev, err := st.Revisions.Get(ctx, app, args[1])
	if err != nil {
		return "", failWith(err)
	}
	newest, err := st.Revisions.List(ctx, app)
	if err != nil {
		return "", failWith(err)
	}
	now, err := st.Revisions.Get(ctx, app, newest[0].ID)
	if err != nil {
		return "", failWith(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", failWith(err)
	}
	defer root.Close()
	r := &restorer{root: root, known: now.Files}
	if err := r.restoreFiles(rev.Files); err != nil {
		return "", failWith(fmt.Errorf("rolling back %s: %w", dir, err))
	}
	fmt.Fprintf(io.err, "%s has the files of revision %s: %d written, %d taken away, %d kept in %s\n", dir, rev.ID, r.written, r.removed, r.kept, replacedDir)
	for _, name := range r.shared {
		fmt.Fprintf(io.err, "%s is for other apps too, and stays as it is\n", filepath.Join(dir, name))
	}
	return rev.ID, nil
}

// reportOtherRevision tells when the files make another revision: the environment has
// its part in it.
func (f *revisionFlags) reportOtherRevision(ctx context.Context, io stdio, dir, want string) error {
	got, err := f.loadRevision(ctx, io, dir)
	if err == nil && got.ID != want {
		fmt.Fprintf(io.err, "with the environment and .env of now it is revision %s\n", got.ID)
	}
	return err
}

// replacedDir is where files go that no revision holds. It begins with a dot,
// so it is no part of the app.
const replacedDir = ".replaced"

// A restorer gives a folder the files of a revision.
type restorer struct {
	root *os.Root
	// known are the files of the newest revision: those need no other keeping.
	known                  map[string][]byte
	written, removed, kept int
	// shared are files above the folder, which other apps have too: they stay.
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

// writeFile puts a file there in one step: nobody sees a part of it.
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
	draft := path.Join(path.Dir(name), ".rollback-"+path.Base(name))
	if err := r.root.WriteFile(draft, content, 0o644); err != nil {
		return err
	}
	r.written++
	return r.root.Rename(draft, name)
}

// backUpFile copies a file that is not of the newest revision aside.
func (r *restorer) backUpFile(name string) error {
	now, err := r.root.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || bytes.Equal(now, r.known[name]) {
		return err
	}
	aside := filepath.ToSlash(filepath.Join(replacedDir, name))
	if err := r.root.MkdirAll(path.Dir(aside), 0o755); err != nil {
		return err
	}
	r.kept++
	return r.root.WriteFile(aside, now, 0o644)
}
