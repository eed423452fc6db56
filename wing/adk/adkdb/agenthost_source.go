package adkdb

import (
	"cmp"
	"context"
	"errors"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/sqlstore"
)

// agenthostSource is an agenthost database with this version's schema.
type agenthostSource struct{ view *sqlstore.ReadOnly }

func (o *agenthostSource) listSessions(ctx context.Context) ([]sessionHead, error) {
	all, err := o.view.Sessions(ctx)
	heads := make([]sessionHead, len(all))
	for i, imp := range all {
		heads[i] = sessionHead{key: imp.Key, created: imp.Created}
	}
	return heads, err
}

func (o *agenthostSource) loadSession(ctx context.Context, h sessionHead, r *Report) (*sqlstore.Import, error) {
	imp := &sqlstore.Import{Key: h.key, Created: h.created}
	err := o.view.Fill(ctx, imp, func(event string, err error) { r.omitEvent(h.key, event, err.Error()) })
	if errors.Is(err, session.ErrInvalid) {
		r.Events.Read += len(imp.Events)
		r.omitSession(h.key, len(imp.Events), 0, err.Error())
		return nil, nil
	}
	r.Keys.Read += len(imp.State)
	return imp, err
}

func (o *agenthostSource) listSharedStates(ctx context.Context) ([]sharedState, error) {
	keys, err := o.view.SharedKeys(ctx)
	var all []sharedState
	for _, k := range keys {
		sh := sharedState{app: k.App, user: k.User, keys: map[string]any{k.Key: k.Value}, err: k.Err}
		if last := len(all) - 1; last >= 0 && sh.err == nil && all[last].err == nil && all[last].app == k.App && all[last].user == k.User {
			all[last].keys[k.Key] = k.Value
			continue
		}
		all = append(all, sh)
	}
	return all, err
}

// importRest imports memories, revisions, evaluation results, rollouts, and outcomes of deleted sessions.
func (o *agenthostSource) importRest(ctx context.Context, m *importer, _ map[session.Key]bool) error {
	if err := o.importMemories(ctx, m); err != nil {
		return err
	}
	err := o.view.Revisions(ctx, func(rev sqlstore.PackedRevision) error {
		return m.countRow(rev.App, &m.report.Revisions, func() (bool, error) { return m.target.Revision(ctx, rev) })
	})
	if err != nil {
		return err
	}
	err = o.view.Results(ctx, func(r sqlstore.PackedResult) error {
		return m.countRow(r.App, &m.report.Results, func() (bool, error) { return m.target.Result(ctx, r) })
	})
	if err != nil {
		return err
	}
	err = o.view.Rollouts(ctx, func(r sqlstore.PackedRollout) error {
		return m.countRow(r.App, &m.report.Rollouts, func() (bool, error) { return m.target.Rollout(ctx, r) })
	})
	if err != nil {
		return err
	}
	return o.view.OutcomeDays(ctx, func(d sqlstore.PackedOutcomeDay) error { return m.importOutcomeDay(ctx, d) })
}

func (m *importer) importOutcomeDay(ctx context.Context, d sqlstore.PackedOutcomeDay) error {
	if !m.includesApp(d.App) {
		return nil
	}
	count := &m.report.OutcomeDays
	count.Read++
	done, err := m.target.OutcomeDay(ctx, d)
	count.Present += done.Present
	switch {
	case done.New:
		count.Written++
	case done.Refused != "":
		count.LeftOut++
		m.report.addOmission("outcomes of deleted sessions of app "+d.App+" on "+store.FormatDay(d.Day), done.Refused)
	}
	return err
}

// countRow imports an app's row unless the app is excluded, and counts it.
func (m *importer) countRow(app string, count *Count, write func() (written bool, err error)) error {
	if !m.includesApp(app) {
		return nil
	}
	count.Read++
	written, err := write()
	if written {
		count.Written++
	} else if err == nil {
		count.Present++
	}
	return err
}

// importMemories imports memories, one session's in a batch.
func (o *agenthostSource) importMemories(ctx context.Context, m *importer) error {
	var key session.Key
	var some []*session.Memory
	write := func() error {
		if len(some) == 0 {
			return nil
		}
		err := m.importMemoryBatch(ctx, key, some)
		some = nil
		return err
	}
	err := o.view.Memories(ctx, func(rem sqlstore.Remembered) error {
		if !m.includesApp(rem.Key.App) {
			return nil
		}
		m.report.Memories.Read++
		if rem.Err != nil {
			m.report.Memories.LeftOut++
			m.report.addOmission("memory "+rem.ID+" of user "+rem.Key.User+" of app "+rem.Key.App, rem.Err.Error())
			return nil
		}
		if rem.Key != key || len(some) == sqlstore.MostMemories {
			if err := write(); err != nil {
				return err
			}
		}
		key, some = rem.Key, append(some, rem.Memory)
		return nil
	})
	return cmp.Or(err, write())
}

func (m *importer) importMemoryBatch(ctx context.Context, key session.Key, some []*session.Memory) error {
	done, err := m.target.Memories(ctx, key, some)
	if err != nil {
		return err
	}
	r, what := m.report, "memories of user "+key.User+" of app "+key.App
	if done.Refused != "" {
		done.Left = append(done.Left, done.Refused)
		r.Memories.LeftOut += len(some) - 1
	}
	r.Memories.Written += done.Keys
	r.Memories.Present += done.Present
	r.Memories.LeftOut += len(done.Left)
	for _, reason := range done.Left {
		r.addOmission(what, reason)
	}
	return nil
}
