package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"agenthost/pkg/session"
)

// An importPlan compares an import with the stored session.
type importPlan struct {
	*Import
	state       map[string]any
	pk          int64 // of the stored session, or 0
	present     int   // number of stored events
	lease       grant // on the stored session
	removedKeys []string
	refusal     string
}

// isDone reports that there is nothing to write.
func (p *importPlan) isDone() bool { return p.refusal != "" || p.pk != 0 && p.present == len(p.Events) }

// summarize returns the result of executing the plan.
func (p *importPlan) summarize() Imported {
	out := Imported{New: p.pk == 0, Present: p.present, Refused: p.refusal}
	if !p.isDone() {
		out.Events, out.Keys = len(p.Events)-p.present, len(p.state)
	}
	return out
}

// compareSession finds out which part of the session is stored.
func (p *importPlan) compareSession(ctx context.Context, r *ReadOnly) error {
	var created int64
	k := p.Key
	err := r.Each(ctx, func(rows *sql.Rows) error { return rows.Scan(&p.pk, &created) },
		"SELECT s.pk, s.create_time FROM sessions s WHERE s.app_name = ? AND s.user_id = ? AND s.id = ?", k.App, k.User, k.ID)
	if err != nil || p.pk == 0 {
		return err
	}
	var ids []string
	err = r.Each(ctx, func(rows *sql.Rows) error {
		var id string
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	}, "SELECT e.id FROM events e WHERE e.session_pk = ? ORDER BY e.seq", p.pk)
	if err != nil {
		return err
	}
	p.matchEvents(ids, created)
	return r.Each(ctx, func(rows *sql.Rows) error {
		var key string
		err := rows.Scan(&key)
		if _, ok := p.state[key]; !ok {
			p.removedKeys = append(p.removedKeys, key)
		}
		return err
	}, "SELECT t.key FROM states t WHERE t.app_name = ? AND t.user_id = ? AND t.session_id = ?", k.App, k.User, k.ID)
}

// matchEvents compares events by id. A session without events is the same one
// if its creation time is the same.
func (p *importPlan) matchEvents(ids []string, created int64) {
	n := min(len(ids), len(p.Events))
	for i := range n {
		if ids[i] != p.Events[i].ID {
			p.refusal = fmt.Sprintf("it exists with other events: number %d is %s, not %s", i+1, ids[i], p.Events[i].ID)
			return
		}
	}
	if n == 0 && created != p.Created.UnixMicro() {
		p.refusal = "another session with this id exists"
		return
	}
	p.present = n
}

// initialState returns the session's own state at creation.
func (p *importPlan) initialState() map[string]any {
	if p.Initial != nil {
		return p.Initial
	}
	first := map[string]any{}
	for k, v := range p.state {
		hasEvent := slices.ContainsFunc(p.Events, func(ev *session.Event) bool {
			_, ok := ev.Actions.StateDelta[k]
			return ok
		})
		if !hasEvent && v != nil {
			first[k] = v
		}
	}
	return first
}
