package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/sqlstore"
	"agenthost/pkg/store/sqlstore/sqlite"
	"agenthost/pkg/store/storeurl"
	"agenthost/pkg/template"
)

const (
	hostApp   = "app"
	hostUser  = "user-1"
	hostAgent = "weather"
)

// agenthost is the agenthost side.
type agenthost struct{}

// Name returns the side's name.
func (agenthost) Name() string { return "agenthost" }

// Open runs the scene's agents on a memory store or a SQLite store.
func (agenthost) Open(ctx context.Context, s Setup) (Chat, error) {
	url := "memory:"
	if s.Dir != "" {
		url = "sqlite:///" + filepath.Join(s.Dir, "agenthost.db") + "?synchronous=" + strings.ToLower(s.Synchronous)
	}
	opened, err := storeurl.Open(ctx, url, &storeurl.Options{Schemes: sqlstore.Engines{sqlite.Engine()}.Schemes()})
	if err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	m := newHostModel(s.Scene)
	root, err := hostTree(s.Scene, m)
	if err != nil {
		return nil, fmt.Errorf("creating the agents: %w", err)
	}
	app, err := runtime.NewApp(hostApp, root, nil)
	if err != nil {
		return nil, fmt.Errorf("creating the app: %w", err)
	}
	c := &hostChat{store: opened, host: runtime.NewHost(opened, nil), model: m}
	c.host.Swap(app)
	return c, nil
}

// Template compiles the text, as loading an agent does, and renders it with a session's state.
func (agenthost) Template(_ context.Context, text string, state map[string]any) (func(context.Context) (string, error), error) {
	compiled, over := template.Parse(text), stateScope{session.NewState(state)}
	return func(ctx context.Context) (string, error) { return compiled.Render(ctx, over) }, nil
}

// stateScope resolves placeholders from a session's state.
type stateScope struct{ state *session.State }

// Lookup reads the state.
func (s stateScope) Lookup(key string) (any, bool) { return s.state.Get(key) }

// Artifact never finds an artifact.
func (stateScope) Artifact(context.Context, string) (string, bool, error) { return "", false, nil }

// hostChat runs agenthost with one storage.
type hostChat struct {
	store *store.Store
	host  *runtime.Host
	model *hostModel
}

func hostKey(id string) session.Key { return session.Key{App: hostApp, User: hostUser, ID: id} }

// Create appends n events to a new session.
func (c *hostChat) Create(ctx context.Context, id string, n int) error {
	sess, err := c.store.Sessions.Create(ctx, hostKey(id), nil)
	if err != nil {
		return err
	}
	for i := range n {
		ev := &session.Event{Author: session.UserAuthor, InvocationID: fmt.Sprintf("e-%d", i/2)}
		ev.Content = model.UserText(Question)
		if i%2 == 1 {
			ev.Author, ev.Content = hostAgent, model.ModelText(Reply)
		}
		if err := c.store.Sessions.Append(ctx, sess, ev); err != nil {
			return err
		}
	}
	return nil
}

// Turn runs one invocation with Host.Run.
func (c *hostChat) Turn(ctx context.Context, id string) (Answer, error) {
	var a Answer
	streaming := len(c.model.chunks) > 0
	req := &runtime.RunRequest{
		App: hostApp, UserID: hostUser, SessionID: id, Message: model.UserText(Question), Streaming: &streaming,
	}
	for ev, err := range c.host.Run(ctx, req) {
		if err != nil {
			return Answer{}, err
		}
		if ev.Partial {
			a.Chunks++
		}
		a.Content = ev.Content
	}
	a.Seen = int(c.model.seen.Load())
	return a, nil
}

// Count reads the session again.
func (c *hostChat) Count(ctx context.Context, id string) (int, error) {
	sess, err := c.store.Sessions.Get(ctx, hostKey(id), nil)
	if err != nil {
		return 0, err
	}
	return len(sess.Events()), nil
}

// Close closes the host and its store.
func (c *hostChat) Close() error {
	c.host.Close()
	return c.store.Close()
}
