package adkdb

import (
	"context"
	"errors"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// ours is a database of agenthost, of this program's schema.
type ours struct{ view *store.ReadOnly }

func (o *ours) heads(ctx context.Context) ([]head, error) {
	all, err := o.view.Sessions(ctx)
	heads := make([]head, len(all))
	for i, imp := range all {
		heads[i] = head{key: imp.Key, created: imp.Created}
	}
	return heads, err
}

func (o *ours) load(ctx context.Context, h head, r *Report) (*store.Import, error) {
	imp := &store.Import{Key: h.key, Created: h.created}
	err := o.view.Fill(ctx, imp, func(event string, err error) { r.eventLeft(h.key, event, err.Error()) })
	if errors.Is(err, session.ErrInvalid) {
		r.Events.Read += len(imp.Events)
		r.sessionLeft(h.key, len(imp.Events), 0, err.Error())
		return nil, nil
	}
	r.Keys.Read += len(imp.State)
	return imp, err
}

func (o *ours) shared(ctx context.Context) ([]shared, error) {
	keys, err := o.view.SharedKeys(ctx)
	var all []shared
	for _, k := range keys {
		sh := shared{app: k.App, user: k.User, keys: map[string]any{k.Key: k.Value}, err: k.Err}
		if last := len(all) - 1; last >= 0 && sh.err == nil && all[last].err == nil && all[last].app == k.App && all[last].user == k.User {
			all[last].keys[k.Key] = k.Value
			continue
		}
		all = append(all, sh)
	}
	return all, err
}

func (o *ours) memories(ctx context.Context, each func(store.Remembered) error) error {
	return o.view.Memories(ctx, each)
}

func (o *ours) finish(*Report, map[session.Key]bool, func(string) bool) {}
