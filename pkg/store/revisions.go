package store

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"agenthost/internal/codec"
	"agenthost/pkg/session"
	"agenthost/pkg/store/backend"
)

// A revision is what an app was built from: its files under the hash of their contents. Events name
// the revision that made them, so that an answer can be explained, a paused run continued, and an
// earlier app served again, long after the files have changed.
//
// Invariants:
//   - A revision is stored before it serves. An event never names one that was not stored; it may
//     name one that was pruned, since only the newest ones are kept.
//   - An id is the hash of the content: equal content is one row, whose Served time moves when it
//     serves again (a rollback). Rows do not change otherwise.
//   - Served increases from one revision to the next even if the clock was set back: the order of
//     the list is the order of serving.
//
// The files are one archive in a column rather than rows of their own: they are read and written
// together. .env is not among them, because a database backup must not contain secrets.

// Revisions stores the source files for each app revision that served, under its content hash, in
// the session database: events name their revision. It is safe for concurrent use.
type Revisions struct {
	backend RevisionBackend
	clock   func() time.Time
}

// A Revision is an app as it once served.
type Revision struct {
	App string
	// ID is the content hash over all that the app was built from.
	ID string
	// Served is when it took the place of another one, the last time.
	Served time.Time
	// Files are by path from the app's folder; nil in lists.
	Files map[string][]byte
}

// A RevisionBackend stores revision rows. It is safe for concurrent use.
type RevisionBackend interface {
	// PutRevision makes a revision its app's newest and deletes all but the newest keep revisions.
	// Its time is later than the previous revision's.
	PutRevision(ctx context.Context, rev *RevisionRecord, keep int) error
	// GetRevision returns ErrNotFound for a missing revision.
	GetRevision(ctx context.Context, app, id string) (*RevisionRecord, error)
	// ListRevisions returns an app's revisions without files, newest first.
	ListRevisions(ctx context.Context, app string) ([]*RevisionRecord, error)
	// Close closes the backend, unless it shares the sessions' engine.
	Close() error
}

// A RevisionRecord is a row; its files are one archive.
type RevisionRecord struct {
	App, ID string
	Served  time.Time
	Files   []byte
}

// Put stores a revision as its app's newest and keeps only the newest keep revisions. If it already
// is the newest, nothing changes.
func (r *Revisions) Put(ctx context.Context, rev *Revision, keep int) error {
	if err := codec.CheckText("app name", rev.App, codec.MaxID); err != nil {
		return err
	}
	if err := codec.CheckText("revision", rev.ID, codec.MaxID); err != nil {
		return err
	}
	if rev.App == "" || rev.ID == "" {
		return fmt.Errorf("app and id of a revision are required: %w", session.ErrInvalid)
	}
	files, err := packFiles(rev.Files)
	if err != nil {
		return fmt.Errorf("storing revision %s of app %s: %w", rev.ID, rev.App, err)
	}
	return r.backend.PutRevision(ctx, &RevisionRecord{rev.App, rev.ID, r.clock(), files}, max(1, keep))
}

// Get returns a revision with its files by id or by a unique id prefix. A missing revision or an
// ambiguous prefix is ErrNotFound.
func (r *Revisions) Get(ctx context.Context, app, id string) (*Revision, error) {
	if !codec.IsStorable(app, id) {
		return nil, backend.RevisionNotFound(app, id)
	}
	row, err := r.backend.GetRevision(ctx, app, id)
	if errors.Is(err, session.ErrNotFound) {
		if row, err = r.findByPrefix(ctx, app, id); err == nil {
			row, err = r.backend.GetRevision(ctx, app, row.ID)
		}
	}
	if err != nil {
		return nil, err
	}
	files, err := unpackFiles(row.Files)
	if err != nil {
		return nil, fmt.Errorf("reading revision %s of app %s: %w", row.ID, app, err)
	}
	return &Revision{App: row.App, ID: row.ID, Served: row.Served, Files: files}, nil
}

// findByPrefix returns the only revision whose id begins with id.
func (r *Revisions) findByPrefix(ctx context.Context, app, id string) (*RevisionRecord, error) {
	all, err := r.backend.ListRevisions(ctx, app)
	if err != nil {
		return nil, err
	}
	like := slices.DeleteFunc(all, func(row *RevisionRecord) bool { return id == "" || !strings.HasPrefix(row.ID, id) })
	switch len(like) {
	case 1:
		return like[0], nil
	case 0:
		return nil, backend.RevisionNotFound(app, id)
	}
	return nil, fmt.Errorf("revision prefix is ambiguous: %d revisions of app %s begin with %s: %w", len(like), app, id, session.ErrNotFound)
}

// List returns an app's revisions without their files, newest first.
func (r *Revisions) List(ctx context.Context, app string) ([]*Revision, error) {
	if !codec.IsStorable(app) {
		return nil, ctx.Err()
	}
	rows, err := r.backend.ListRevisions(ctx, app)
	if err != nil {
		return nil, err
	}
	all := make([]*Revision, len(rows))
	for i, row := range rows {
		all[i] = &Revision{App: row.App, ID: row.ID, Served: row.Served}
	}
	return all, nil
}

// NextServedTime returns a new revision's time. It is later than the previous one's, even if the
// clock was set back.
func NextServedTime(newest, now time.Time) time.Time {
	now = now.UTC().Truncate(time.Microsecond)
	if !now.After(newest) {
		return newest.Add(time.Microsecond)
	}
	return now
}

// packFiles creates an archive with files. The same files give the same archive.
func packFiles(files map[string][]byte) ([]byte, error) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		w, err := z.Create(name)
		if err == nil {
			_, err = w.Write(files[name])
		}
		if err != nil {
			return nil, err
		}
	}
	err := z.Close()
	return b.Bytes(), err
}

func unpackFiles(archive []byte) (map[string][]byte, error) {
	z, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			return nil, err
		}
		if files[f.Name], err = io.ReadAll(r); err != nil {
			return nil, err
		}
		if err := r.Close(); err != nil {
			return nil, err
		}
	}
	return files, nil
}
