// Command bench does the same work with google.golang.org/adk/v2 and with agenthost in
// one process and prints the costs and their ratios.
package main

import (
	"context"

	"google.golang.org/genai"
)

// The texts of both sides.
const (
	// Instruction is the instruction of each agent. It has no placeholders.
	Instruction = "Answer the user in one word."
	// Question is the text of every user message.
	Question = "What does the weather look like in Paris today?"
	// Reply is the text of every answer.
	Reply = "ok"
)

// A Side is one of the compared programs. Its sessions belong to one app with the
// agents of a [Scene]. The agents have Instruction, and their model answers immediately
// according to the scene. Everything else is configured for speed, without logs.
type Side interface {
	// Name returns the column of the side in the report.
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
	// Synchronous is SQLite's setting of that name, FULL or NORMAL. With FULL a turn
	// returns after its events are synced to disk.
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

	// Count reads the number of stored events of the session.
	Count(ctx context.Context, id string) (int, error)

	// Close stops the program. The files in Storage.Dir remain.
	Close() error
}

// An Answer is the result of a turn.
type Answer struct {
	// Content is the content of the last event.
	Content *genai.Content
	// Seen is the number of contents in the last model call.
	Seen int
	// Chunks is the number of partial events.
	Chunks int
}
