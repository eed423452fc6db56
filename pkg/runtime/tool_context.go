package runtime

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/tool"
)

// newToolCall returns one tool call's context, with its view of the state.
func (inv *Invocation) newToolCall(fc *genai.FunctionCall, state *callState) *tool.Call {
	actions := state.actions
	call := &tool.Call{
		ID: fc.ID, Name: fc.Name, Args: cloneArgs(fc.Args),
		Origin:         inv.requestOrigin(),
		State:          state,
		Actions:        actions,
		Artifacts:      &callArtifacts{store: inv.run.host.store.Artifacts, key: inv.run.sess.Key, actions: actions},
		Memories:       &callMemories{inv.run},
		IdempotencyKey: idempotencyKey(inv.run.id, fc.ID),
		EndInvocation:  inv.EndInvocation,
		Expressions:    inv.run.expressionBudget(),
	}
	if inv.node.llm != nil {
		call.AskModel = inv.askOwnModel
	}
	return call
}

// NewSetCall returns the call with which a tool set is used for the invocation's session, outside
// calls: it has no ID, name and arguments. Its actions have no effect.
func (inv *Invocation) NewSetCall() *tool.Call {
	return inv.newToolCall(&genai.FunctionCall{}, inv.newCallState(&session.Actions{}))
}

func idempotencyKey(invocation, call string) string { return invocation + "/" + call }

// callState overlays the session's state with one call's writes, and with those of earlier calls in
// the same answer (call_order.go). The writes are stored with the result event.
type callState struct {
	run *run
	// turn is nil for a call without others.
	turn    *callTurn
	mu      sync.Mutex
	actions *session.Actions
	// read are the keys that were read after an earlier call had written them, and replaced
	// those that were written after that.
	read, replaced map[string]bool
}

func (inv *Invocation) newCallState(actions *session.Actions) *callState {
	return &callState{run: inv.run, actions: actions}
}

func (s *callState) Get(key string) (any, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.readBefore(key)
	v, _, err := s.actions.Updated(key, before)
	if err != nil {
		v = before // the append reports the error
	}
	if v == nil {
		v, ok := s.run.app.state.Default(key)
		return cloneValue(v), ok
	}
	return cloneValue(v), true
}

// readBefore returns a key's value before this call, or nil. The caller holds the lock.
func (s *callState) readBefore(key string) any {
	old, _ := s.run.sess.State.Get(key)
	if s.turn == nil {
		return old
	}
	v, written, _, err := s.turn.earlierValue(key, old)
	if err != nil {
		return old
	}
	if written {
		s.markRead(key)
	}
	return v
}

// markRead records that the call has read what earlier calls wrote to a key.
func (s *callState) markRead(key string) {
	if s.read == nil {
		s.read = map[string]bool{}
	}
	s.read[key] = true
}

// Update records updates that can be applied to the current values.
func (s *callState) Update(all ...session.StateUpdate) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := session.Actions{StateDelta: s.actions.StateDelta, StateUpdates: slices.Clone(s.actions.StateUpdates)}
	for _, u := range all {
		next.Update(s.run.typeStateUpdate(u))
		if _, _, err := next.Updated(u.Key, s.readBefore(u.Key)); err != nil {
			return err
		}
	}
	s.actions.StateUpdates = next.StateUpdates
	return nil
}

// typeStateUpdate adds the key's default and type to an update.
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
	if s.read[key] {
		if s.replaced == nil {
			s.replaced = map[string]bool{}
		}
		s.replaced[key] = true
	}
}

func (s *callState) All() map[string]any { return cloneArgs(s.sharedValues()) }

// sharedValues returns the same as All without copying the session's values; they must not be
// changed.
func (s *callState) sharedValues() map[string]any {
	all := s.run.sess.State.All()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range s.turn.earlierKeys() {
		v, written, isSet, err := s.turn.earlierValue(key, all[key])
		if err == nil && written { // the append reports an error
			setOrDelete(all, key, v)
		}
		if isSet {
			s.markRead(key)
		}
	}
	for _, key := range slices.Concat(slices.Collect(maps.Keys(s.actions.StateDelta)), s.actions.UpdatedKeys()) {
		if v, _, err := s.actions.Updated(key, all[key]); err == nil { // the append reports it
			setOrDelete(all, key, v)
		}
	}
	s.run.app.state.AddDefaults(all)
	return all
}

func setOrDelete(all map[string]any, key string, v any) {
	if v == nil {
		delete(all, key)
	} else {
		all[key] = v
	}
}

// copyWrites returns a copy of the writes, with values as they are stored; nil without
// writes.
func (s *callState) copyWrites() *callWrites {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.actions.StateDelta)+len(s.actions.StateUpdates) == 0 {
		return nil
	}
	w := &callWrites{keys: map[string]*session.Actions{}, replaced: maps.Clone(s.replaced)}
	for key, v := range s.actions.StateDelta {
		w.keys[key] = &session.Actions{StateDelta: map[string]any{key: session.Normalize(v)}}
	}
	for _, u := range s.actions.StateUpdates {
		if w.keys[u.Key] == nil {
			w.keys[u.Key] = &session.Actions{}
		}
		w.keys[u.Key].Update(u)
	}
	return w
}

// callArtifacts accesses the session's artifacts, and records saved versions in the actions of the
// call.
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

// callMemories accesses the run user's memories. An inner run shares them, but its temporary
// session is never added.
type callMemories struct{ run *run }

func (m *callMemories) memoryStore() *store.Memories { return m.run.host.store.Memories }

func (m *callMemories) Search(ctx context.Context, query string) ([]*session.Memory, error) {
	return m.searchMemories(ctx, store.MemoryQuery{Text: query})
}

func (m *callMemories) SearchOthers(ctx context.Context, query string) ([]*session.Memory, error) {
	return m.searchMemories(ctx, store.MemoryQuery{Text: query, NotSession: m.run.sess.ID})
}

func (m *callMemories) searchMemories(ctx context.Context, q store.MemoryQuery) ([]*session.Memory, error) {
	return m.memoryStore().Search(ctx, m.run.sess.App, m.run.sess.User, q)
}

func (m *callMemories) LoadProfiles(ctx context.Context) (map[string]any, error) {
	return m.memoryStore().LoadProfiles(ctx, m.run.sess.App, m.run.sess.User)
}

func (m *callMemories) AddSession(ctx context.Context) error {
	if m.run.inner {
		return nil
	}
	// The run may see only some session events.
	sess, err := m.run.host.store.Sessions.Get(ctx, m.run.sess.Key, nil)
	if err != nil {
		return err
	}
	return m.memoryStore().AddSession(ctx, sess)
}

func (m *callMemories) AddEvents(ctx context.Context, events []*session.Event) error {
	if m.run.inner {
		return nil
	}
	return m.memoryStore().AddEvents(ctx, m.run.sess.Key, events)
}

func (m *callMemories) Add(ctx context.Context, memories ...*session.Memory) error {
	return m.memoryStore().Add(ctx, m.run.sess.App, m.run.sess.User, memories...)
}

// askOwnModel is [tool.Call.AskModel] for the agent's model.
func (inv *Invocation) askOwnModel(ctx context.Context, req *model.Request) (*model.Response, error) {
	req.Model, req.Origin = inv.node.llm.Name(), inv.requestOrigin()
	req.Origin.UserText = ""
	if n := len(req.Contents); n > 0 {
		req.Origin.UserText = model.TextOf(req.Contents[n-1])
	}
	resp, err := inv.askModel(ctx, inv.node.llm, req)
	switch {
	case err != nil:
		return nil, err
	case resp == nil:
		return nil, fmt.Errorf("model %s returned no response", req.Model)
	case resp.ErrorCode != "":
		return nil, fmt.Errorf("model %s: %s %s", req.Model, resp.ErrorCode, resp.ErrorMessage)
	}
	return resp, nil
}
