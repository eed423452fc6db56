package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// A server may answer reads from another node than writes: a proxy that sends SELECT to standbys, an endpoint with
// several nodes, a cluster without synchronous reads. Such a node lags. A run that begins with an older state
// loses to the events that are stored, so its turn fails.
//
// A lag shows when a read lacks what this store has read or written before. Then the writer's connection reads again,
// because it sees its own writes. If it finds more than the read, sessions are read there from then on: one read more
// in the writer's queue instead of a failed turn. If it finds the same, the database was restored to an older state.
type lagWatch struct {
	// found reports that a read was answered by a node that lags.
	found  atomic.Bool
	logger *slog.Logger
}

// reportLag reports that reads lag.
func (l *lagWatch) reportLag(ctx context.Context, key session.Key) {
	if l.found.CompareAndSwap(false, true) {
		l.logger.WarnContext(ctx, "the database answers reads from a replica that lags: sessions are read on the connections that write from now on",
			"app", key.App, "session", key.ID)
	}
}

// lacksEvents reports whether a snapshot lacks events that the caller's copy has.
func lacksEvents(snap *store.Snapshot, w store.EventWindow) bool {
	if w.ID == 0 || w.IsNarrow() {
		return false
	}
	return snap.ID < w.ID || snap.ID == w.ID && (snap.Version < w.Since || snap.Version == w.Since && snap.LastID != w.SinceID)
}

// readOwnWrites reads a session like readOnce, and sees what this store has written even if the server answers other
// reads from a replica that lags.
func (b *Database) readOwnWrites(ctx context.Context, key session.Key, w store.EventWindow) (*store.Snapshot, error) {
	if b.dialect.server == nil || b.writes == nil {
		return b.readOnce(ctx, key, w)
	}
	if b.lag.found.Load() && !w.IsNarrow() {
		return b.readOnWriter(ctx, key, w)
	}
	snap, err := b.readOnce(ctx, key, w)
	if err != nil || !lacksEvents(snap, w) {
		return snap, err
	}
	written, err := b.readOnWriter(ctx, key, w)
	if err == nil && (written.ID > snap.ID || written.ID == snap.ID && written.Version > snap.Version) {
		b.lag.reportLag(ctx, key)
	}
	return written, err
}

// readOnWriter reads a session on its writer's connection.
func (b *Database) readOnWriter(ctx context.Context, key session.Key, w store.EventWindow) (snap *store.Snapshot, err error) {
	err = b.writerFor(key).executeJob(ctx, &job{relaxed: true, run: func(wr *writer) error {
		if snap, err = queryHead(wr.ctx, wr.stmt.head, key); err != nil || snap.ID == 0 {
			return err
		}
		events, err := wr.dialect.prepareStatement(wr.ctx, wr.conn, wr.dialect.hintRead(fmt.Sprintf(eventsSQL, b.provenance)))
		if err != nil {
			return err
		}
		defer events.Close()
		snap.Events, err = readEvents(wr.ctx, events, snap, w)
		return err
	}})
	return snap, err
}

// checkLag finds out whether a stale append was caused by a read that lagged: the run had the session's lease, so
// that no other run can have stored events.
func (b *Database) checkLag(ctx context.Context, a *appendJob, appendErr error) {
	if b.dialect.server == nil || a.Epoch == 0 || !errors.Is(appendErr, session.ErrStale) || b.lag.found.Load() {
		return
	}
	snap, err := b.readHead(ctx, a.Key)
	if err == nil && snap.Version < a.stored {
		b.lag.reportLag(ctx, a.Key)
	}
}

// hintRead adds the server's hint to a statement whose result decides a write.
func (d dialect) hintRead(text string) string {
	if d.server == nil {
		return text
	}
	return d.server.readHint + text
}
