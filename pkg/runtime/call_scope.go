package runtime

import (
	"context"
	"maps"
	"slices"
	"sync"

	"google.golang.org/genai"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// callState overlays the session's state with the writes of one call. The
// writes are stored with the call's event; until then only the call sees them.
type callState struct {
	run     *run
	mu      sync.Mutex
	actions *session.Actions
}

func (s *callState) Get(key string) (any, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, written := s.readOwnWrite(key)
	switch {
	case !written:
		v, ok := s.run.lookupState(key)
		return cloneValue(v), ok
	case v == nil:
		return s.run.app.state.Default(key)
	}
	return cloneValue(v), true
}

// readOwnWrite returns the value of a key that this call has written. The caller
// holds the lock.
func (s *callState) readOwnWrite(key string) (v any, written bool) {
	if len(s.actions.StateUpdates) == 0 {
		v, written = s.actions.StateDelta[key]
		return v, written
	}
	old, _ := s.run.sess.State.Get(key)
	v, written, err := s.actions.Updated(key, old)
	if err != nil {
		return old, true // the append reports the error
	}
	return v, written
}

// Update records updates that can be applied to the current values.
func (s *callState) Update(all ...session.StateUpdate) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := session.Actions{StateDelta: s.actions.StateDelta, StateUpdates: slices.Clone(s.actions.StateUpdates)}
	for _, u := range all {
		next.Update(s.run.typeStateUpdate(u))
		old, _ := s.run.sess.State.Get(u.Key)
		if _, _, err := next.Updated(u.Key, old); err != nil {
			return err
		}
	}
	s.actions.StateUpdates = next.StateUpdates
	return nil
}

// typeStateUpdate adds the default and the type of the key to an update.
func (r *run) typeStateUpdate(u session.StateUpdate) session.StateUpdate {
	schema := r.app.state
	if schema == nil || u.Check != nil {
		return u
	}
	if u.Default == nil {
		u.Default, _ = schema.Default(u.Key)
	}
	u.Check = func(v any) (any, error) { return schema.Check(u.Key, v) }
	return u
}

func (s *callState) Set(key string, value any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.actions.SetState(key, value)
}

func (s *callState) All() map[string]any { return cloneArgs(s.sharedValues()) }

// sharedValues returns the same as All without copying the values of the
// session; they must not be changed.
func (s *callState) sharedValues() map[string]any {
	all := s.run.sess.State.All()
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, v := range s.actions.StateDelta {
		if v == nil {
			delete(all, k)
		} else {
			all[k] = v
		}
	}
	for _, k := range s.actions.UpdatedKeys() {
		all[k], _ = s.readOwnWrite(k)
	}
	s.run.app.state.AddDefaults(all)
	return all
}

// callArtifacts accesses the session's artifacts, and records saved versions in
// the actions of the call.
type callArtifacts struct {
	store   *store.Artifacts
	key     session.Key
	mu      sync.Mutex
	actions *session.Actions
}

func (a *callArtifacts) Save(ctx context.Context, name string, part *genai.Part) (int, error) {
	version, err := a.store.Save(ctx, a.key, name, part)
	if err != nil {
		return 0, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.actions.SetArtifact(name, version)
	return version, nil
}

func (a *callArtifacts) Load(ctx context.Context, name string) (*genai.Part, error) {
	return a.store.Load(ctx, a.key, name, -1)
}

func (a *callArtifacts) Keys(ctx context.Context) ([]string, error) {
	return a.store.Keys(ctx, a.key)
}

// cloneArgs returns a deep copy of arguments: a tool may change its copy, while
// the event keeps the original.
func cloneArgs(args map[string]any) map[string]any {
	if args == nil {
		return map[string]any{}
	}
	c := maps.Clone(args)
	for k, v := range c {
		c[k] = cloneValue(v)
	}
	return c
}

func cloneValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return cloneArgs(v)
	case []any:
		c := make([]any, len(v))
		for i, e := range v {
			c[i] = cloneValue(e)
		}
		return c
	}
	return v
}
