package main

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	adk "google.golang.org/adk/v2/session"
	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/sqlstore"
	"agenthost/pkg/store/sqlstore/mysql"
	"agenthost/pkg/store/sqlstore/postgres"
	"agenthost/pkg/store/sqlstore/sqlite"
	"agenthost/pkg/store/storeurl"
	"agenthost/qa/bench/internal/engine"
)

const (
	app, user = "app", "user-1"
	// text is every event's text.
	text = "When does the next ferry leave? The next one leaves at 14:05 from the second pier, and takes half an hour."
)

// A sessionStore stores sessions. It is used concurrently, each session by one
// goroutine. Appended events are durable when append returns.
type sessionStore interface {
	// createSession creates a session.
	createSession(ctx context.Context, id string) (openSession, error)
	// readSession reads a session, as at the start of a turn.
	readSession(ctx context.Context, id string) (openSession, error)
	close() error
}

// An openSession is a session that was created or read.
type openSession interface {
	// appendEvent appends an event.
	appendEvent(ctx context.Context) error
	// eventCount counts the events.
	eventCount() int
}

// agenthostStore is agenthost's session store.
type agenthostStore struct{ store *store.Store }

func openOurs(ctx context.Context, d *engine.Database) (sessionStore, error) {
	st, err := storeurl.Open(ctx, d.URL(), &storeurl.Options{Schemes: databaseSchemes(), Artifacts: "memory:"})
	if err != nil {
		return nil, err
	}
	return &agenthostStore{st}, nil
}

func (o *agenthostStore) createSession(ctx context.Context, id string) (openSession, error) {
	s, err := o.store.Sessions.Create(ctx, session.Key{App: app, User: user, ID: id}, nil)
	return &agenthostSession{o.store, s}, err
}

func (o *agenthostStore) readSession(ctx context.Context, id string) (openSession, error) {
	s, err := o.store.Sessions.Get(ctx, session.Key{App: app, User: user, ID: id}, nil)
	return &agenthostSession{o.store, s}, err
}

func (o *agenthostStore) close() error { return o.store.Close() }

type agenthostSession struct {
	store   *store.Store
	session *session.Session
}

func (t *agenthostSession) appendEvent(ctx context.Context) error {
	ev := &session.Event{Author: session.UserAuthor, InvocationID: "e-1", Response: model.Response{Content: model.UserText(text)}}
	return t.store.Sessions.Append(ctx, t.session, ev)
}

func (t *agenthostSession) eventCount() int { return t.session.History.Len() }

// adkStore is adk-go's session service.
type adkStore struct {
	pool    *sql.DB
	service adk.Service
}

func openTheirs(d *engine.Database, s engine.Setup) (sessionStore, error) {
	service, pool, err := d.Open(s)
	if err != nil {
		return nil, err
	}
	return &adkStore{pool, service}, nil
}

func (t *adkStore) createSession(ctx context.Context, id string) (openSession, error) {
	r, err := t.service.Create(ctx, &adk.CreateRequest{AppName: app, UserID: user, SessionID: id})
	if err != nil {
		return nil, err
	}
	return &adkSession{t.service, r.Session}, nil
}

func (t *adkStore) readSession(ctx context.Context, id string) (openSession, error) {
	r, err := t.service.Get(ctx, &adk.GetRequest{AppName: app, UserID: user, SessionID: id})
	if err != nil {
		return nil, err
	}
	return &adkSession{t.service, r.Session}, nil
}

func (t *adkStore) close() error { return t.pool.Close() }

type adkSession struct {
	service adk.Service
	session adk.Session
}

func (t *adkSession) appendEvent(ctx context.Context) error {
	ev := adk.NewEvent(ctx, "e-1")
	ev.Author, ev.Content = "user", genai.NewContentFromText(text, genai.RoleUser)
	ev.Timestamp = time.Now()
	return t.service.AppendEvent(ctx, t.session, ev)
}

func (t *adkSession) eventCount() int { return t.session.Events().Len() }

// fillSession creates a session with events.
func fillSession(ctx context.Context, k sessionStore, id string, events int) error {
	t, err := k.createSession(ctx, id)
	for n := 0; n < events && err == nil; n++ {
		err = t.appendEvent(ctx)
	}
	if err != nil {
		return fmt.Errorf("filling %s: %w", id, err)
	}
	return nil
}

// databaseSchemes returns all databases' schemes.
func databaseSchemes() []storeurl.Scheme {
	return sqlstore.Engines{sqlite.Engine(), postgres.Engine(), mysql.Engine()}.Schemes()
}
