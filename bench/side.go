// Command bench does the same work with google.golang.org/adk/v2 and with
// agenthost in one process, and prints what each took and the ratios.
package main

import (
	"context"

	"google.golang.org/genai"
)

// What both sides say, so that they do the same work.
const (
	// Instruction is the agent's instruction. It has no placeholders.
	Instruction = "Answer the user in one word."
	// Question is the text of every user message, stored or asked.
	Question = "What does the weather look like in Paris today?"
	// Reply is the text of every answer, stored or from the model.
	Reply = "ok"
)

// A Side is one of the programs that are compared. Its sessions belong to one
// app with the agents of a [Scene], which have Instruction, and whose model
// answers at once as the scene says. Everything else is set up as the program's
// users would for speed, logs off.
type Side interface {
	// Name is the side's column in the report.
	Name() string

	// Open starts the program.
	Open(ctx context.Context, s Setup) (Chat, error)

	// Template prepares an instruction with {key} placeholders, as the program
	// does when it loads an agent, over a session that has this state. The
	// function it returns fills the placeholders in, as each turn does.
	Template(ctx context.Context, text string, state map[string]any) (func(context.Context) (string, error), error)
}

// A Setup is a storage and what is played on it.
type Setup struct {
	Storage
	Scene
}

// A Storage says where sessions are kept.
type Storage struct {
	// Dir is a folder of the side's own for an SQLite database in WAL mode,
	// read by modernc.org/sqlite. Empty means memory.
	Dir string
	// Synchronous is SQLite's setting of that name, FULL or NORMAL, and must be
	// obeyed. With FULL a turn returns when its events are on disk.
	Synchronous string
}

// A Chat is a running program. It is used by one goroutine.
type Chat interface {
	// Create makes a session with n earlier events, alternately Question by
	// the user and Reply by the agent. It is never timed.
	Create(ctx context.Context, id string, n int) error

	// Turn says Question in a session and runs the agents to their end: every
	// event is stored when it returns. It is what the clock measures, so it must be
	// the way that the program's own server takes.
	Turn(ctx context.Context, id string) (Answer, error)

	// Count reads how many events the session has in the storage.
	Count(ctx context.Context, id string) (int, error)

	// Close ends the program; what is in Storage.Dir stays.
	Close() error
}

// An Answer is what came out of a turn.
type Answer struct {
	// Content is that of the last event that the run gave out.
	Content *genai.Content
	// Seen is how many contents the model was asked with last.
	Seen int
	// Chunks is how many partial events the run gave out.
	Chunks int
}
