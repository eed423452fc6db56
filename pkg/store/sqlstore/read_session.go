package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"gorm.io/gorm"

	"agenthost/internal/safe"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/backend"
)

// Row kinds in the head statement, in the order of its parts.
const (
	rowHead = iota
	rowApp
	rowUser
	rowSession
)

// The statements that read a session. The first reads a consistent snapshot: the head, that is, the
// last event's number and time, and the state keys by scope. The second reads the events up to that
// head, with the expression for their provenance; events never change, so it may run later. For the
// last event in the caller's copy it reads only the ID.
const (
	lastEventSQL = `LEFT JOIN events h ON h.session_pk = s.pk
 AND h.seq = (SELECT max(m.seq) FROM events m WHERE m.session_pk = s.pk)`
	headSQL = `
SELECT 0, s.pk, coalesce(h.seq, 0), coalesce(h.timestamp, s.create_time), coalesce(h.id, ''), coalesce(%s, '') FROM sessions s ` + lastEventSQL + `
 WHERE s.app_name = $1 AND s.user_id = $2 AND s.id = $3
UNION ALL SELECT 1, 0, 0, 0, t.key, t.value FROM states t
 WHERE t.app_name = $1 AND t.user_id = '' AND t.session_id = ''
UNION ALL SELECT 2, 0, 0, 0, t.key, t.value FROM states t
 WHERE t.app_name = $1 AND t.user_id = $2 AND t.session_id = ''
UNION ALL SELECT 3, 0, 0, 0, t.key, t.value FROM states t
 WHERE t.app_name = $1 AND t.user_id = $2 AND t.session_id = $3`
	eventsSQL = `SELECT e.seq, CASE WHEN e.seq = $2 THEN e.id ELSE e.event END, %s FROM events e
 WHERE e.session_pk = $1 AND e.seq >= $2 AND e.seq <= $3 ORDER BY e.seq`
)

// ReadSession implements [store.SessionBackend].
func (b *Database) ReadSession(ctx context.Context, key session.Key, w store.EventWindow) (*store.Snapshot, error) {
	var snap *store.Snapshot
	err := b.retryRead(ctx, func(ctx context.Context) (err error) {
		snap, err = b.readOwnWrites(ctx, key, w)
		return err
	})
	switch {
	case err != nil && b.isClosed():
		return nil, store.ErrClosed
	case err != nil:
		return nil, backend.WrapReadError(key, err)
	case snap.ID == 0:
		return nil, backend.SessionNotFound(key.ID)
	default:
		return snap, nil
	}
}

// readOnce reads a session's head and its events up to there. If events are missing because the
// session was deleted in between, it reads the head again.
func (b *Database) readOnce(ctx context.Context, key session.Key, w store.EventWindow) (*store.Snapshot, error) {
	var was int64
	for {
		snap, err := b.readHead(ctx, key)
		if err != nil || snap.ID == 0 {
			return snap, err
		}
		if w.IsNarrow() {
			snap.Events, err = b.readNarrow(ctx, snap.Head, w)
		} else {
			snap.Events, err = readEvents(ctx, b.events, snap, w)
		}
		var bad *backend.DamagedError
		if err == nil || !errors.As(err, &bad) || snap.ID == was {
			return snap, err
		}
		was = snap.ID
	}
}

// readHead reads a session without its events, on the writer's connection if that is idle. A
// missing session has the head id 0.
func (b *Database) readHead(ctx context.Context, key session.Key) (snap *store.Snapshot, err error) {
	switch {
	case b.headReader != nil:
		return b.headReader.readHead(ctx, key)
	case b.dialect.server != nil:
		return queryHead(ctx, b.head, key)
	}
	// Watching a context costs more than the statement.
	ctx = context.WithoutCancel(ctx)
	w := b.writers[0]
	if w.borrowConn(func() { snap, err = queryHead(ctx, w.stmt.head, key) }) {
		return snap, err
	}
	return queryHead(ctx, b.head, key)
}

func queryHead(ctx context.Context, stmt *statement, key session.Key) (*store.Snapshot, error) {
	rows, err := stmt.QueryContext(ctx, key.App, key.User, key.ID)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	snap := &store.Snapshot{}
	for rows.Next() {
		if err := scanHead(rows, func(r headStatementRow) error { return addRow(snap, r) }); err != nil {
			return nil, err
		}
	}
	return snap, rows.Err()
}

// A headStatementRow is a row from the head statement: the head, or a state key.
type headStatementRow struct {
	kind                int
	id, number, updated int64
	key                 string
	text                sql.RawBytes
}

// scanHead scans a row, whose first columns may be others, and passes it on
// before the next row reuses its bytes.
func scanHead(rows *sql.Rows, take func(headStatementRow) error, before ...any) error {
	var r headStatementRow
	if err := rows.Scan(append(before, &r.kind, &r.id, &r.number, &r.updated, &r.key, &r.text)...); err != nil {
		return err
	}
	return take(r)
}

func addRow(s *store.Snapshot, r headStatementRow) error {
	if r.kind == rowHead {
		if len(r.text) > 0 {
			s.Outcome = bytes.Clone(r.text)
		}
		s.Head, s.LastID = store.Head{ID: r.id, Version: r.number, Updated: microsToTime(r.updated)}, r.key
		return nil
	}
	v, err := backend.DecodeValue(r.text)
	if err != nil {
		return backend.NewDamagedError(err, "state key %q", scopeOfRow(r.kind).Prefix()+r.key)
	}
	if s.State == nil {
		s.State = map[string]any{} // most sessions have no state
	}
	s.State[scopeOfRow(r.kind).Prefix()+r.key] = v
	return nil
}

func scopeOfRow(kind int) session.Scope {
	switch kind {
	case rowApp:
		return session.ScopeApp
	case rowUser:
		return session.ScopeUser
	default:
		return session.ScopeSession
	}
}

// readEvents reads the events after those in the caller's copy, up to a head. If the events in the caller's
// copy are not in the database, because an older backup was restored, it reads all events.
func readEvents(ctx context.Context, stmt *statement, snap *store.Snapshot, w store.EventWindow) ([]store.StoredEvent, error) {
	if w.ID != snap.ID {
		w.Since, w.SinceID = 0, ""
	}
	if w.Since == snap.Version && w.SinceID == snap.LastID {
		return nil, nil
	}
	if w.Since < snap.Version {
		events, same, err := queryEvents(ctx, stmt, snap.Head, w)
		if err != nil || same {
			return events, err
		}
	}
	w.Since, w.SinceID, snap.Whole = 0, "", true
	events, _, err := queryEvents(ctx, stmt, snap.Head, w)
	return events, err
}

// queryEvents reads the events after a number, and reports whether the event
// with that number is the one in the caller's copy.
func queryEvents(ctx context.Context, stmt *statement, h store.Head, w store.EventWindow) (events []store.StoredEvent, same bool, err error) {
	rows, err := stmt.QueryContext(ctx, h.ID, w.Since, h.Version)
	if err != nil {
		return nil, false, err
	}
	defer rows.Close()
	same = w.Since == 0
	for rows.Next() {
		var seq int64
		var text, provenance sql.RawBytes
		if err := rows.Scan(&seq, &text, &provenance); err != nil {
			return nil, false, err
		}
		if seq == w.Since {
			same = string(text) == w.SinceID
			continue
		}
		ev, err := decodeEvent(text, seq, provenance)
		if err != nil {
			return nil, false, err
		}
		events = append(events, newStoredEvent(ev, len(text)))
	}
	if err = rows.Err(); err == nil && same {
		err = checkSequence(events, w.Since, h.Version)
	}
	return events, same, err
}

// narrowQuery selects events by the primary key, latest first.
func (b *Database) narrowQuery(ctx context.Context, h store.Head, w store.EventWindow) *gorm.DB {
	db := b.readers.WithContext(ctx)
	q := db.Where("session_pk = ? AND seq <= ?", h.ID, h.Version)
	if w.After != nil {
		older := db.Model(&eventRow{}).Select("seq").Where("session_pk = ? AND timestamp < ?", h.ID, w.After.UnixMicro())
		q = q.Where("seq > coalesce((?), 0)", older.Order("seq DESC").Limit(1))
	}
	return q.Select("seq", "event", b.provenance+" AS provenance").Order("seq DESC").Limit(w.Last)
}

func (b *Database) readNarrow(ctx context.Context, h store.Head, w store.EventWindow) ([]store.StoredEvent, error) {
	var rows []fullEventRow
	if err := b.narrowQuery(ctx, h, w).Find(&rows).Error; err != nil {
		return nil, fmt.Errorf("reading events: %w", err)
	}
	events := make([]store.StoredEvent, len(rows))
	for i, r := range rows {
		ev, err := decodeEvent([]byte(r.Event), r.Seq, r.provenance())
		if err != nil {
			return nil, err
		}
		events[len(rows)-1-i] = newStoredEvent(ev, len(r.Event))
	}
	since := h.Version - int64(len(rows))
	if w.After == nil && len(rows) < w.Last {
		since = 0
	}
	return events, checkSequence(events, since, h.Version)
}

// estimateEventBytes estimates an event's memory from its JSON's length.
func estimateEventBytes(text int) int64 { return 1024 + 2*int64(text) }

func newStoredEvent(ev *session.Event, text int) store.StoredEvent {
	return store.StoredEvent{Event: ev, TextBytes: int64(text), CacheBytes: estimateEventBytes(text)}
}

// checkSequence checks that event numbers run from since+1 to last without a gap.
func checkSequence(events []store.StoredEvent, since, last int64) error {
	for _, e := range slices.Backward(events) {
		if e.Event.Seq != last {
			break
		}
		last--
	}
	if since != last {
		return backend.NewDamagedError(errMissing, "event %d", last)
	}
	return nil
}

// errMissing is the reason for a missing row.
var errMissing = errors.New("row is missing")

// queryHeads finds sessions in order by the index on their app, or on their app and user.
func queryHeads(q store.SessionQuery, tx *gorm.DB) *gorm.DB {
	db := tx.Table("sessions s").Joins(lastEventSQL).Where("s.app_name = ? AND s.pk > ?", q.App, q.After)
	if q.User != "" {
		db = db.Where("s.user_id = ?", q.User)
	}
	if q.IDs != nil {
		db = db.Where("s.pk IN ?", q.IDs)
	}
	if q.Limit > 0 {
		db = db.Limit(q.Limit)
	}
	order := "s.pk"
	if q.Newest {
		order = "s.pk DESC"
	}
	return db.Select("s.pk, s.app_name, s.user_id, s.id, s.create_time, h.seq AS version, h.timestamp AS update_time").Order(order)
}

// maxHeadBatch is how many sessions a batch has at most.
const maxHeadBatch = 128

// readHead returns one session's head, with the id 0 if it is missing. It returns as soon as its
// context ends, and if it still waits for a batch, when the breaker opens.
func (h *headReader) readHead(ctx context.Context, key session.Key) (*store.Snapshot, error) {
	q := &headRequest{key: key, done: make(chan struct{})}
	h.enqueueRequest(q)
	select {
	case <-q.done:
		return q.snap, q.err
	case <-h.breaker.openChannel():
		if h.withdrawRequest(q) {
			return nil, errSilent
		}
	case <-ctx.Done():
	}
	select {
	case <-q.done:
		return q.snap, q.err
	case <-ctx.Done():
		h.cancelRequest(q)
		return nil, ctx.Err()
	}
}

func (h *headReader) enqueueRequest(q *headRequest) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.queue = append(h.queue, q)
	if h.busy < h.maxReads {
		h.busy++
		go func() {
			defer safe.Recover(func(p *safe.Panic) { p.Log(h.logger, "reading of session heads panicked") })
			h.readBatches()
		}()
	}
}

// withdrawRequest removes a request from the queue, unless it is in a batch.
func (h *headReader) withdrawRequest(q *headRequest) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if q.batch != nil {
		return false
	}
	h.queue = slices.DeleteFunc(h.queue, func(other *headRequest) bool { return other == q })
	return true
}

func (h *headReader) cancelRequest(q *headRequest) {
	if h.withdrawRequest(q) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if q.batch.waiters--; q.batch.waiters == 0 {
		q.batch.cancel()
	}
}

// readBatches reads batches until the queue is empty.
func (h *headReader) readBatches() {
	for {
		ctx, cancel := context.WithCancel(context.Background())
		all := h.dequeueBatch(cancel)
		if len(all) == 0 {
			cancel()
			return
		}
		keys := make([]session.Key, len(all))
		for i, q := range all {
			keys[i] = q.key
		}
		snaps, err := h.readRecovered(ctx, keys)
		cancel()
		for i, q := range all {
			if q.err = err; err == nil {
				q.snap = snaps[i]
			}
			close(q.done)
		}
	}
}

// readRecovered converts a panic in the read to its error. Otherwise the waiters would block
// forever and the panic would end the process.
func (h *headReader) readRecovered(ctx context.Context, keys []session.Key) (snaps []*store.Snapshot, err error) {
	if p := safe.Call(func() { snaps, err = h.read(ctx, keys) }); p != nil {
		p.Log(h.logger, "reading of session heads panicked", "sessions", len(keys))
		return nil, errPanicked
	}
	return snaps, err
}

// dequeueBatch moves queued requests to a batch. If there are none, the reader
// becomes idle.
func (h *headReader) dequeueBatch(cancel context.CancelFunc) []*headRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := min(len(h.queue), maxHeadBatch)
	all := h.queue[:n:n]
	h.queue = h.queue[n:]
	if n == 0 {
		h.busy--
	}
	r := &headBatch{n, cancel}
	for _, q := range all {
		q.batch = r
	}
	return all
}

// queryHeads reads session heads. A single session has its own, cheaper statement.
func (b *Database) queryHeads(ctx context.Context, keys []session.Key) ([]*store.Snapshot, error) {
	if len(keys) == 1 {
		snap, err := queryHead(ctx, b.head, keys[0])
		return []*store.Snapshot{snap}, err
	}
	apps, users, ids := make([]string, len(keys)), make([]string, len(keys)), make([]string, len(keys))
	snaps := make([]*store.Snapshot, len(keys))
	for i, k := range keys {
		apps[i], users[i], ids[i] = k.App, k.User, k.ID
		snaps[i] = &store.Snapshot{State: map[string]any{}}
	}
	rows, err := b.reads.QueryContext(ctx, b.dialect.server.headsSQL, apps, users, ids)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scanIndexedHead(snaps, rows); err != nil {
			return nil, err
		}
	}
	return snaps, rows.Err()
}

// scanIndexedHead reads a row from the batch statement. Its first column is the session's number,
// from 1.
func scanIndexedHead(snaps []*store.Snapshot, rows *sql.Rows) error {
	var n int
	return scanHead(rows, func(r headStatementRow) error {
		if n < 1 || n > len(snaps) {
			return fmt.Errorf("session number %d is out of range 1 to %d", n, len(snaps))
		}
		return addRow(snaps[n-1], r)
	}, &n)
}
