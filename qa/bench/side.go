// Command bench does the same work with google.golang.org/adk/v2 and with agenthost in
// one process and prints the costs and their ratios.
package main

import (
	"context"

	"google.golang.org/genai"
)

// Both sides' texts.
const (
	// Instruction is each agent's instruction. It has no placeholders.
	Instruction = "Answer the user in one word."
	// Question is every user message's text.
	Question = "What does the weather look like in Paris today?"
	// Reply is every answer's text.
	Reply = "ok"
)

// A Side is one of the compared programs. Its sessions belong to one app with a [Scene]'s agents.
// The agents have Instruction, and their model answers immediately according to the scene.
// Everything else is configured for speed, without logs.
type Side interface {
	// Name returns the side's column in the report.
	Name() string

	// Open starts the program.
	Open(ctx context.Context, s Setup) (Chat, error)

	// Template compiles an instruction with {key} placeholders, as loading an agent
	// does, for a session with this state. The returned function fills the
	// placeholders, as each turn does.
	Template(ctx context.Context, text string, state map[string]any) (func(context.Context) (string, error), error)
}

// A Setup is a storage and the scene that runs on it.
type Setup struct {
	Storage
	Scene
}

// A Storage is where sessions are stored.
type Storage struct {
	// Dir is a folder for a SQLite database in WAL mode, opened with
	// modernc.org/sqlite. Empty means memory.
	Dir string
	// Synchronous is SQLite's setting with that name, FULL or NORMAL. With FULL a turn returns
	// after its events are synced to disk.
	Synchronous string
}

// A Chat is a running program. It is used by one goroutine.
type Chat interface {
	// Create creates a session with n earlier events, alternately Question from the
	// user and Reply from the agent. It is not measured.
	Create(ctx context.Context, id string, n int) error

	// Turn sends Question in a session and runs the agents to the end. Every event is
	// stored when it returns. It is measured, so it must use the same code as the
	// program's own server.
	Turn(ctx context.Context, id string) (Answer, error)

	// Count reads how many events the session has stored.
	Count(ctx context.Context, id string) (int, error)

	// Close stops the program. The files in Storage.Dir remain.
	Close() error
}

// An Answer is a turn's result.
type Answer struct {
	// Content is the last event's content.
	Content *genai.Content
	// Seen counts the contents in the last model call.
	Seen int
	// Chunks counts the partial events.
	Chunks int
}
