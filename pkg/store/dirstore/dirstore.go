// Package dirstore keeps artifacts in a file system folder.
package dirstore

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"agenthost/internal/codec"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// Names below an artifact's folder:
//
//	<root>/<app>/<user>/<session or user>/<name…>/versions/<n>/metadata.json
//	                                                          /content
const (
	versionsName = "versions"
	metadataName = "metadata.json"
	contentName  = "content"
	userScope    = "user"
	tempPrefix   = ".new-"
	oldPrefix    = ".old-"
)

// uriScheme is the scheme in version URIs. ADK's folders have file: with the host's path, which
// clients should not learn.
const uriScheme = "dir"

// maxSaveAttempts limits a save's attempts.
const maxSaveAttempts = 100

// Artifacts stores artifacts in a folder and never accesses files outside
// it. Several processes may use the folder concurrently: a complete version is
// published with an atomic rename.
type Artifacts struct {
	root   *os.Root
	closed atomic.Bool
}

// Open opens a folder. It creates a missing one.
func Open(dir string) (*Artifacts, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, err
	}
	return &Artifacts{root: root}, nil
}

// SaveVersion implements [store.ArtifactBackend].
func (d *Artifacts) SaveVersion(ctx context.Context, at store.ArtifactKey, rec *store.ArtifactRecord) (session.ArtifactVersion, error) {
	if d.closed.Load() {
		return session.ArtifactVersion{}, store.ErrClosed
	}
	for try := 1; ; try++ {
		n, err := d.saveOnce(versionsDir(at), rec)
		// Another process removed the folder or created this version.
		again := errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist)
		if again && try == maxSaveAttempts { // the folder itself is missing
			err = &store.ArtifactsUnavailable{Err: err}
		}
		if !again || try == maxSaveAttempts || ctx.Err() != nil {
			return rec.DescribeVersion(n, at.VersionURI(uriScheme, n)), wrapError(err, "saving artifact %q", at.PrefixedName())
		}
	}
}

// saveOnce writes a version to a temporary folder and renames it.
func (d *Artifacts) saveOnce(dir string, rec *store.ArtifactRecord) (n int, err error) {
	if err := d.root.MkdirAll(dir, 0o700); err != nil {
		return 0, err
	}
	temp := path.Join(dir, tempPrefix+rand.Text())
	if err := d.root.Mkdir(temp, 0o700); err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.root.RemoveAll(temp))
		}
	}()
	if err := d.writeVersion(temp, rec); err != nil {
		return 0, err
	}
	numbers, err := d.listVersionNumbers(dir)
	if err != nil {
		return 0, err
	}
	if len(numbers) > 0 {
		n = numbers[len(numbers)-1] + 1
	}
	if err := d.root.Rename(temp, path.Join(dir, strconv.Itoa(n))); err != nil {
		return 0, err
	}
	return n, d.syncDir(dir)
}

func (d *Artifacts) writeVersion(dir string, rec *store.ArtifactRecord) error {
	text, err := json.MarshalIndent(rec, "", "  ")
	if err != nil {
		return err
	}
	if err := d.writeFile(path.Join(dir, metadataName), append(text, '\n')); err != nil {
		return err
	}
	if err := d.writeFile(path.Join(dir, contentName), rec.Bytes); err != nil {
		return err
	}
	return d.syncDir(dir)
}

func (d *Artifacts) writeFile(name string, b []byte) error {
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncDir makes a folder's entries durable.
func (d *Artifacts) syncDir(dir string) error {
	f, err := d.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// listVersionNumbers returns the versions in a folder in order; a missing
// folder has none.
func (d *Artifacts) listVersionNumbers(dir string) ([]int, error) {
	entries, err := d.readDir(dir)
	var all []int
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all, err
}

func (d *Artifacts) readDir(dir string) ([]fs.DirEntry, error) {
	f, err := d.root.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	entries, err := f.ReadDir(-1)
	return entries, errors.Join(err, f.Close())
}

// LoadVersion implements [store.ArtifactBackend].
func (d *Artifacts) LoadVersion(_ context.Context, at store.ArtifactKey, version int) (*store.ArtifactRecord, error) {
	if d.closed.Load() {
		return nil, store.ErrClosed
	}
	dir := versionsDir(at)
	n := version
	if n < 0 {
		numbers, err := d.listVersionNumbers(dir)
		if err != nil {
			return nil, wrapError(err, "loading artifact %q", at.PrefixedName())
		}
		if len(numbers) == 0 {
			return nil, at.NotFound(version)
		}
		n = numbers[len(numbers)-1]
	}
	rec, err := d.readVersion(dir, n)
	if err == nil {
		rec.Bytes, err = d.root.ReadFile(path.Join(dir, strconv.Itoa(n), contentName))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, at.NotFound(version)
	}
	return rec, wrapError(err, "loading artifact %q", at.PrefixedName())
}

// readVersion reads a version's metadata.
func (d *Artifacts) readVersion(dir string, n int) (*store.ArtifactRecord, error) {
	text, err := d.root.ReadFile(path.Join(dir, strconv.Itoa(n), metadataName))
	if err != nil {
		return nil, err
	}
	rec := &store.ArtifactRecord{}
	return rec, json.Unmarshal(text, rec)
}

// ListNames implements [store.ArtifactBackend].
func (d *Artifacts) ListNames(_ context.Context, app, user, id string) ([]string, error) {
	if d.closed.Load() {
		return nil, store.ErrClosed
	}
	var names []string
	err := d.walkVersions(scopeDir(app, user, id), func(dir string) error {
		numbers, err := d.listVersionNumbers(dir)
		if err != nil || len(numbers) == 0 {
			return err
		}
		rec, err := d.readVersion(dir, numbers[0])
		if errors.Is(err, fs.ErrNotExist) {
			return nil // deleted concurrently
		}
		if err == nil {
			names = append(names, rec.Name)
		}
		return err
	})
	return names, wrapError(err, "listing artifacts of user %q", user)
}

// walkVersions visits the versions folders below a folder.
func (d *Artifacts) walkVersions(dir string, visit func(versions string) error) error {
	entries, err := d.readDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		sub := path.Join(dir, e.Name())
		switch {
		case !e.IsDir() || strings.HasPrefix(e.Name(), oldPrefix):
			continue
		case e.Name() == versionsName:
			err = visit(sub)
		default:
			err = d.walkVersions(sub, visit)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ListVersions implements [store.ArtifactBackend].
func (d *Artifacts) ListVersions(_ context.Context, at store.ArtifactKey) ([]session.ArtifactVersion, error) {
	if d.closed.Load() {
		return nil, store.ErrClosed
	}
	dir := versionsDir(at)
	numbers, err := d.listVersionNumbers(dir)
	var all []session.ArtifactVersion
	for _, n := range numbers {
		rec, err := d.readVersion(dir, n)
		if err != nil {
			return nil, wrapError(err, "reading the versions of artifact %q", at.PrefixedName())
		}
		all = append(all, rec.DescribeVersion(n, at.VersionURI(uriScheme, n)))
	}
	return all, wrapError(err, "reading the versions of artifact %q", at.PrefixedName())
}

// DeleteArtifact deletes the versions with an atomic rename, then parent
// folders that are empty now.
func (d *Artifacts) DeleteArtifact(_ context.Context, at store.ArtifactKey) error {
	if d.closed.Load() {
		return store.ErrClosed
	}
	dir := versionsDir(at)
	old := path.Join(path.Dir(dir), oldPrefix+rand.Text())
	err := d.root.Rename(dir, old)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = d.root.RemoveAll(old)
	}
	if err != nil {
		return wrapError(err, "deleting artifact %q", at.PrefixedName())
	}
	top := scopeDir(at.App, at.User, at.Session)
	for dir = path.Dir(dir); dir != top; dir = path.Dir(dir) {
		if d.root.Remove(dir) != nil {
			break // not empty
		}
	}
	return nil
}

// probeBytes is how much Ping writes: one block in common file systems.
const probeBytes = 4096

// Ping writes a one-block file to the disk and deletes it. It detects a full disk, a read-only or
// removed folder and a failing file system.
func (d *Artifacts) Ping(context.Context) (err error) {
	if d.closed.Load() {
		return store.ErrClosed
	}
	name := tempPrefix + "probe-" + rand.Text()
	err = d.writeFile(name, make([]byte, probeBytes))
	if removeErr := d.root.Remove(name); !errors.Is(removeErr, fs.ErrNotExist) {
		err = errors.Join(err, removeErr)
	}
	if errors.Is(err, fs.ErrNotExist) { // the folder was removed
		return &store.ArtifactsUnavailable{Err: err}
	}
	return wrapError(err, "writing to the artifact folder")
}

// Close closes the backend.
func (d *Artifacts) Close() error {
	if d.closed.Swap(true) {
		return nil
	}
	return d.root.Close()
}

// wrapError adds context to an error, and marks disk errors; nil stays nil.
func wrapError(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, store.MarkFileError(err))...)
}

// scopeDir returns the folder with a session's or a user's artifacts.
func scopeDir(app, user, id string) string {
	scope := userScope
	if id != "" {
		scope = codec.EscapeFileName(id, userScope)
	}
	return path.Join(codec.EscapeFileName(app, ""), codec.EscapeFileName(user, ""), scope)
}

// versionsDir returns the folder with an artifact's versions.
func versionsDir(at store.ArtifactKey) string {
	dir := scopeDir(at.App, at.User, at.Session)
	for part := range strings.SplitSeq(at.Name, "/") {
		dir = path.Join(dir, codec.EscapeFileName(part, versionsName))
	}
	return path.Join(dir, versionsName)
}
