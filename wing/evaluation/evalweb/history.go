package evalweb

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"agenthost/internal/appfolder"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/wing/evaluation/eval"
)

// An evalHistory reads an app's results: the files in its folder, and those in the session
// database, which replicas share. A result in both places is read from its file.
type evalHistory struct {
	app string
	// root is the app's folder, nil without one.
	root   *os.Root
	stored *store.Results
}

// An evalResultEntry is a result in a list. Time is 0 and SetID is empty if they are unknown,
// Bytes is 0 for a result in the session database.
type evalResultEntry struct {
	ID    string  `json:"id"`
	SetID string  `json:"setId,omitempty"`
	Time  float64 `json:"time,omitempty"`
	Bytes int64   `json:"bytes"`
	// inDatabase reports that there is no file. changed is when the result was written.
	inDatabase bool
	changed    time.Time
}

// openEvalHistory opens an app's results; the app may have no folder.
func (s *handlers) openEvalHistory(app string) (*evalHistory, error) {
	root, err := appfolder.Open(s.opts.Folders, app)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return &evalHistory{app, root, s.Host().Store().Results}, nil
}

func (h *evalHistory) closeFolder() {
	if h.root != nil {
		h.root.Close()
	}
}

// listResults lists the results in both places, newest first.
func (h *evalHistory) listResults(ctx context.Context) ([]evalResultEntry, error) {
	results, err := h.listFiles()
	if err != nil {
		return nil, err
	}
	files := map[string]bool{}
	for _, entry := range results {
		files[entry.ID] = true
	}
	rows, err := h.stored.List(ctx, h.app)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if files[row.ID] || eval.CheckPathSegment(row.ID) != nil {
			continue
		}
		entry := evalResultEntry{ID: row.ID, inDatabase: true, changed: row.Stored}
		entry.SetID, entry.Time = splitResultID(row.ID, h.app)
		entry.SetID = cmp.Or(row.SetID, entry.SetID)
		entry.Time = cmp.Or(entry.Time, float64(row.Stored.UnixMicro())/1e6)
		results = append(results, entry)
	}
	slices.SortStableFunc(results, func(a, b evalResultEntry) int { return cmp.Compare(b.Time, a.Time) })
	return results, nil
}

// listFiles lists the files with results. Links are not listed.
func (h *evalHistory) listFiles() ([]evalResultEntry, error) {
	results := []evalResultEntry{}
	if h.root == nil {
		return results, nil
	}
	entries, err := fs.ReadDir(h.root.FS(), eval.HistoryFolder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), eval.ResultSuffix)
		info, err := e.Info()
		if !ok || err != nil || !info.Mode().IsRegular() {
			continue
		}
		set, at := splitResultID(id, h.app)
		results = append(results, evalResultEntry{ID: id, SetID: set, Time: at, Bytes: info.Size(), changed: info.ModTime()})
	}
	return results, nil
}

// splitResultID returns the set and the time for a result that is named as ADK does:
// app_set_time.
func splitResultID(id, app string) (set string, at float64) {
	i := strings.LastIndexByte(id, '_')
	if i < 0 {
		return "", 0
	}
	at, err := strconv.ParseFloat(id[i+1:], 64)
	set, ok := strings.CutPrefix(id[:i], app+"_")
	if err != nil || !ok || !(at >= 0 && at < 1e12) {
		return "", 0
	}
	return set, at
}

// readResult reads a result. A missing one is [session.ErrNotFound], an invalid one
// [spec.Diagnostics].
func (h *evalHistory) readResult(ctx context.Context, id string) (*eval.SetResult, error) {
	text, err := h.readText(ctx, id)
	if err != nil {
		return nil, err
	}
	return eval.ReadResult(id+eval.ResultSuffix, text)
}

// readText reads a result without validating it.
func (h *evalHistory) readText(ctx context.Context, id string) ([]byte, error) {
	if eval.CheckPathSegment(id) != nil {
		return nil, session.ErrNotFound
	}
	if h.root != nil && isRegularFile(h.root, eval.HistoryFolder, id, eval.ResultSuffix) {
		return readLimited(h.root, path.Join(eval.HistoryFolder, id+eval.ResultSuffix))
	}
	row, err := h.stored.Get(ctx, h.app, id)
	if err != nil {
		return nil, err
	}
	return row.Content, nil
}
