package main

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"time"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/session/database"
	"google.golang.org/adk/v2/util/instructionutil"
	"google.golang.org/genai"
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
	_ "modernc.org/sqlite" // the engine "sqlite" for database/sql
)

const (
	adkApp   = "app"
	adkUser  = "user-1"
	adkAgent = "weather"
)

// adkGo is the google.golang.org/adk/v2 side.
type adkGo struct{}

// Name returns the side's name.
func (adkGo) Name() string { return "adk-go" }

// Open runs the scene's agents on adk-go's in-memory sessions, or on its database sessions with
// prepared statements.
func (adkGo) Open(_ context.Context, s Setup) (Chat, error) {
	c := &adkChat{sessions: session.InMemoryService(), model: newADKModel(s.Scene)}
	if s.Dir != "" {
		if err := c.openDatabase(s.Storage); err != nil {
			return nil, fmt.Errorf("opening the database: %w", err)
		}
	}
	root, err := adkTree(s.Scene, c.model)
	if err != nil {
		return nil, fmt.Errorf("creating the agents: %w", err)
	}
	run, err := newADKRunner(c.sessions, root)
	if err != nil {
		return nil, fmt.Errorf("creating the runner: %w", err)
	}
	c.runner = run
	return c, nil
}

// Template fills placeholders with adk-go's InjectSessionState. Only a run provides the
// context that it needs, so Template runs one turn.
func (adkGo) Template(ctx context.Context, text string, state map[string]any) (func(context.Context) (string, error), error) {
	var inside agent.ReadonlyContext
	sessions := session.InMemoryService()
	root, err := llmagent.New(llmagent.Config{
		Name: adkAgent, Model: newADKModel(Scene{}),
		InstructionProvider: func(rc agent.ReadonlyContext) (string, error) {
			inside = rc
			return "", nil
		},
	})
	if err != nil {
		return nil, fmt.Errorf("creating the agent: %w", err)
	}
	run, err := newADKRunner(sessions, root)
	if err != nil {
		return nil, fmt.Errorf("creating the runner: %w", err)
	}
	req := &session.CreateRequest{AppName: adkApp, UserID: adkUser, SessionID: "template", State: state}
	if _, err := sessions.Create(ctx, req); err != nil {
		return nil, fmt.Errorf("creating the session: %w", err)
	}
	if _, err := adkTurn(ctx, run, "template", agent.RunConfig{}); err != nil {
		return nil, fmt.Errorf("running one turn: %w", err)
	}
	return func(context.Context) (string, error) {
		return instructionutil.InjectSessionState(inside, text)
	}, nil
}

func newADKRunner(sessions session.Service, root agent.Agent) (*runner.Runner, error) {
	return runner.New(runner.Config{AppName: adkApp, Agent: root, SessionService: sessions})
}

// adkTurn sends Question and returns the answer without Seen.
func adkTurn(ctx context.Context, run *runner.Runner, id string, config agent.RunConfig) (Answer, error) {
	question := genai.NewContentFromText(Question, genai.RoleUser)
	var a Answer
	for ev, err := range run.Run(ctx, adkUser, id, question, config) {
		if err != nil {
			return a, err
		}
		if ev.Partial {
			a.Chunks++
		}
		a.Content = ev.Content
	}
	return a, nil
}

// adkChat runs adk-go with one storage.
type adkChat struct {
	db       *sql.DB // nil in memory
	sessions session.Service
	runner   *runner.Runner
	model    *adkModel
}

func (c *adkChat) openDatabase(st Storage) error {
	dsn := "file:" + filepath.Join(st.Dir, "adk.db") +
		"?_journal_mode=WAL&_busy_timeout=5000&_txlock=immediate&_foreign_keys=on&_time_format=sqlite&_synchronous=" + st.Synchronous
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return err
	}
	// A session's first turn queries missing app state, which gorm would log. Prepared statements
	// follow adk-go's own tests.
	options := &gorm.Config{PrepareStmt: true, Logger: logger.Discard}
	sessions, err := database.NewSessionService(sqlite.New(sqlite.Config{Conn: db}), options)
	if err == nil {
		err = database.AutoMigrate(sessions)
	}
	if err != nil {
		db.Close()
		return err
	}
	c.db, c.sessions = db, sessions
	return nil
}

// Create appends the events one by one, as adk-go stores them.
func (c *adkChat) Create(ctx context.Context, id string, n int) error {
	created, err := c.sessions.Create(ctx, &session.CreateRequest{AppName: adkApp, UserID: adkUser, SessionID: id})
	if err != nil {
		return fmt.Errorf("creating session %s: %w", id, err)
	}
	start := time.Now().Add(-time.Hour)
	for i := range n {
		ev := earlierEvent(ctx, i)
		ev.Timestamp = start.Add(time.Duration(i) * time.Millisecond)
		if err := c.sessions.AppendEvent(ctx, created.Session, ev); err != nil {
			return fmt.Errorf("appending event %d to session %s: %w", i, id, err)
		}
	}
	return nil
}

// earlierEvent returns a filled session's i-th event. Even events are from the user.
func earlierEvent(ctx context.Context, i int) *session.Event {
	ev := session.NewEvent(ctx, fmt.Sprintf("invocation-%d", i/2))
	if i%2 == 0 {
		ev.Author, ev.Content = "user", genai.NewContentFromText(Question, genai.RoleUser)
	} else {
		ev.Author, ev.Content = adkAgent, genai.NewContentFromText(Reply, genai.RoleModel)
	}
	return ev
}

// Turn runs the agent with adk-go's runner.
func (c *adkChat) Turn(ctx context.Context, id string) (Answer, error) {
	var config agent.RunConfig
	if len(c.model.chunks) > 0 {
		config.StreamingMode = agent.StreamingModeSSE
	}
	a, err := adkTurn(ctx, c.runner, id, config)
	a.Seen = int(c.model.seen.Load())
	return a, err
}

// Count loads the session.
func (c *adkChat) Count(ctx context.Context, id string) (int, error) {
	got, err := c.sessions.Get(ctx, &session.GetRequest{AppName: adkApp, UserID: adkUser, SessionID: id})
	if err != nil {
		return 0, err
	}
	return got.Session.Events().Len(), nil
}

// Close closes the database, if there is one.
func (c *adkChat) Close() error {
	if c.db == nil {
		return nil
	}
	return c.db.Close()
}
