package main

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"path/filepath"
	"sync/atomic"
	"time"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/session/database"
	"google.golang.org/adk/v2/util/instructionutil"
	"google.golang.org/genai"
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
	_ "modernc.org/sqlite" // the engine "sqlite" of database/sql
)

const (
	adkApp   = "app"
	adkUser  = "user-1"
	adkAgent = "weather"
)

// adkGo is the side of google.golang.org/adk/v2.
type adkGo struct{}

// Name is adk-go.
func (adkGo) Name() string { return "adk-go" }

// Open runs an LLM agent on adk-go's in-memory sessions, or on its database
// sessions with prepared statements.
func (adkGo) Open(_ context.Context, st Storage) (Chat, error) {
	c := &adkChat{sessions: session.InMemoryService(), model: &adkModel{}}
	if st.Dir != "" {
		if err := c.openDatabase(st); err != nil {
			return nil, fmt.Errorf("opening the database: %w", err)
		}
	}
	run, err := newADKRunner(c.sessions, llmagent.Config{Model: c.model, Instruction: Instruction})
	if err != nil {
		return nil, fmt.Errorf("making the runner: %w", err)
	}
	c.runner = run
	return c, nil
}

// Template fills placeholders by adk-go's InjectSessionState. That needs a
// context which only a run can give, so one turn is made to get hold of it.
func (adkGo) Template(ctx context.Context, text string, state map[string]any) (func(context.Context) (string, error), error) {
	var inside agent.ReadonlyContext
	sessions := session.InMemoryService()
	run, err := newADKRunner(sessions, llmagent.Config{
		Model: &adkModel{},
		InstructionProvider: func(rc agent.ReadonlyContext) (string, error) {
			inside = rc
			return "", nil
		},
	})
	if err != nil {
		return nil, fmt.Errorf("making the runner: %w", err)
	}
	req := &session.CreateRequest{AppName: adkApp, UserID: adkUser, SessionID: "template", State: state}
	if _, err := sessions.Create(ctx, req); err != nil {
		return nil, fmt.Errorf("creating the session: %w", err)
	}
	if _, err := adkTurn(ctx, run, "template"); err != nil {
		return nil, fmt.Errorf("making one turn: %w", err)
	}
	return func(context.Context) (string, error) {
		return instructionutil.InjectSessionState(inside, text)
	}, nil
}

func newADKRunner(sessions session.Service, c llmagent.Config) (*runner.Runner, error) {
	c.Name = adkAgent
	root, err := llmagent.New(c)
	if err != nil {
		return nil, err
	}
	return runner.New(runner.Config{AppName: adkApp, Agent: root, SessionService: sessions})
}

// adkTurn asks Question and returns the content of the last event.
func adkTurn(ctx context.Context, run *runner.Runner, id string) (*genai.Content, error) {
	question := genai.NewContentFromText(Question, genai.RoleUser)
	var last *genai.Content
	for ev, err := range run.Run(ctx, adkUser, id, question, agent.RunConfig{}) {
		if err != nil {
			return nil, err
		}
		last = ev.Content
	}
	return last, nil
}

// adkModel answers Reply at once.
type adkModel struct {
	seen atomic.Int64
}

// Name is the name of no real model.
func (*adkModel) Name() string { return "instant" }

// GenerateContent answers Reply and remembers the length of the request.
func (m *adkModel) GenerateContent(_ context.Context, req *model.LLMRequest, _ bool) iter.Seq2[*model.LLMResponse, error] {
	return func(yield func(*model.LLMResponse, error) bool) {
		m.seen.Store(int64(len(req.Contents)))
		yield(&model.LLMResponse{Content: genai.NewContentFromText(Reply, genai.RoleModel)}, nil)
	}
}

// adkChat is adk-go on one storage.
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
	// Every first turn asks for app state that is not there, which gorm would
	// print; and adk-go's own tests prepare statements.
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

// earlierEvent is the i-th event of a filled session: the user's are even.
func earlierEvent(ctx context.Context, i int) *session.Event {
	ev := session.NewEvent(ctx, fmt.Sprintf("invocation-%d", i/2))
	if i%2 == 0 {
		ev.Author, ev.Content = "user", genai.NewContentFromText(Question, genai.RoleUser)
	} else {
		ev.Author, ev.Content = adkAgent, genai.NewContentFromText(Reply, genai.RoleModel)
	}
	return ev
}

// Turn runs the agent by adk-go's runner.
func (c *adkChat) Turn(ctx context.Context, id string) (Answer, error) {
	last, err := adkTurn(ctx, c.runner, id)
	return Answer{Content: last, Seen: int(c.model.seen.Load())}, err
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
