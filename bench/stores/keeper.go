package main

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	adk "google.golang.org/adk/v2/session"
	"google.golang.org/genai"

	"agenthost/bench/internal/engine"
	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

const (
	app, user = "app", "user-1"
	// text is what every event says.
	text = "When does the next ferry leave? The next one leaves at 14:05 from the second pier, and takes half an hour."
)

// A keeper keeps sessions. Many goroutines use it, each with a session of its
// own. What it appends is durable when it returns.
type keeper interface {
	// create makes a session.
	create(ctx context.Context, id string) (talk, error)
	// open reads a session, as a turn does before it begins.
	open(ctx context.Context, id string) (talk, error)
	close() error
}

// A talk is a session that was made or read.
type talk interface {
	// append adds an event.
	append(ctx context.Context) error
	// events is how many there are.
	events() int
}

// ours is agenthost.
type ours struct{ store *store.Store }

func openOurs(ctx context.Context, d *engine.Database) (keeper, error) {
	st, err := store.Open(ctx, d.URL(), &store.Options{Artifacts: "memory:"})
	if err != nil {
		return nil, err
	}
	return &ours{st}, nil
}

func (o *ours) create(ctx context.Context, id string) (talk, error) {
	s, err := o.store.Sessions.Create(ctx, session.Key{App: app, User: user, ID: id}, nil)
	return &ourTalk{o.store, s}, err
}

func (o *ours) open(ctx context.Context, id string) (talk, error) {
	s, err := o.store.Sessions.Get(ctx, session.Key{App: app, User: user, ID: id}, nil)
	return &ourTalk{o.store, s}, err
}

func (o *ours) close() error { return o.store.Close() }

type ourTalk struct {
	store   *store.Store
	session *session.Session
}

func (t *ourTalk) append(ctx context.Context) error {
	ev := &session.Event{Author: session.UserAuthor, InvocationID: "e-1", Response: model.Response{Content: model.UserText(text)}}
	return t.store.Sessions.Append(ctx, t.session, ev)
}

func (t *ourTalk) events() int { return t.session.History.Len() }

// theirs is adk-go.
type theirs struct {
	pool    *sql.DB
	service adk.Service
}

func openTheirs(d *engine.Database, s engine.Setup) (keeper, error) {
	service, pool, err := d.Open(s)
	if err != nil {
		return nil, err
	}
	return &theirs{pool, service}, nil
}

func (t *theirs) create(ctx context.Context, id string) (talk, error) {
	r, err := t.service.Create(ctx, &adk.CreateRequest{AppName: app, UserID: user, SessionID: id})
	if err != nil {
		return nil, err
	}
	return &theirTalk{t.service, r.Session}, nil
}

func (t *theirs) open(ctx context.Context, id string) (talk, error) {
	r, err := t.service.Get(ctx, &adk.GetRequest{AppName: app, UserID: user, SessionID: id})
	if err != nil {
		return nil, err
	}
	return &theirTalk{t.service, r.Session}, nil
}

func (t *theirs) close() error { return t.pool.Close() }

type theirTalk struct {
	service adk.Service
	session adk.Session
}

func (t *theirTalk) append(ctx context.Context) error {
	ev := adk.NewEvent(ctx, "e-1")
	ev.Author, ev.Content = "user", genai.NewContentFromText(text, genai.RoleUser)
	ev.Timestamp = time.Now()
	return t.service.AppendEvent(ctx, t.session, ev)
}

func (t *theirTalk) events() int { return t.session.Events().Len() }

// fill makes a session of so many events.
func fill(ctx context.Context, k keeper, id string, events int) error {
	t, err := k.create(ctx, id)
	for n := 0; n < events && err == nil; n++ {
		err = t.append(ctx)
	}
	if err != nil {
		return fmt.Errorf("filling %s: %w", id, err)
	}
	return nil
}
