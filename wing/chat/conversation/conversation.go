// Package conversation is a conversation with an app in a terminal or over pipes: it sends what a
// person writes, prints the answers, asks for approvals and answers that calls wait for, and has the
// commands that the person can type. The screen is package chat's; without one, the conversation
// reads and prints plain lines.
//
// [Options] has the parts that other wings add: authorizing connections, live runs, and further
// commands.
package conversation

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"google.golang.org/genai"

	"agenthost/internal/command"
	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/wing/chat"
)

// Options are the settings of a conversation.
type Options struct {
	Env  command.Env
	Host *runtime.Host
	// Key is the session's; with an empty ID the conversation begins a new one.
	Key session.Key
	// MustExist reports that a session that is not stored is an error.
	MustExist bool
	// State is set with the first message.
	State map[string]any
	// Dir is the app's folder, and Loading has the settings with which it is loaded again. [Conversation.Talk]
	// needs them.
	Dir     string
	Loading *loader.Options
	// JSON prints events as lines of JSON, and no prompts.
	JSON bool
	// Costs has the host's model calls, for the status line and the cost of answers.
	Costs *Costs
	// Terminal is the person's; nil if the conversation reads and prints plain lines.
	Terminal *chat.Terminal
	// FindConsent returns what authorizes the connection for a call, nil if the call does not wait
	// for one. CanAuthorize reports that someone can do it.
	FindConsent  func(call *genai.FunctionCall) *Consent
	CanAuthorize bool
	// StartLive begins a live run; only live conversations need it.
	StartLive func(ctx context.Context, key session.Key) *LiveRun
	// ListCommands returns further commands; it may be nil.
	ListCommands func(t *Conversation) chat.Commands
	// DescribeContinuation returns the command that continues the session, or "" if the session ends
	// with this process.
	DescribeContinuation func(id string) string
}

// A Consent is a call that waits until the user authorizes a connection.
type Consent struct {
	Connection string
	// Pending describes what the call waits for.
	Pending string
	// Authorize waits until the user has authorized the connection, and returns the answer to the
	// call. lines are what the person enters, nil without a conversation.
	Authorize func(ctx context.Context, key session.Key, lines <-chan string) (map[string]any, error)
}

// A LiveRun is a live run of the session.
type LiveRun struct {
	// Events are the run's.
	Events runtime.Events
	// Send sends a message and sets state with it. Close lets the run end after what was sent.
	Send  func(ctx context.Context, message *genai.Content, state map[string]any) error
	Close func()
}

// A Conversation is a session with one app. One goroutine uses it.
type Conversation struct {
	opts Options
	key  session.Key
	// stored reports that the session exists in the store.
	stored bool
	state  map[string]any
	// lines receives the lines that the user types.
	lines <-chan string
	// lastAnswer is the text of the last answer, for /copy.
	lastAnswer string
	// commands are those that the user can type.
	commands chat.Commands
	// attached are the files that go with the next message, and replaces is the invocation that it
	// replaces, or empty.
	attached []*genai.Part
	replaces string
	// loader loads the app's folder for reloads.
	loader *loader.Loader
	// stopWatching ends the reloads, until watchContext ends or startWatching begins them again.
	watchContext context.Context
	stopWatching func()
	// releaseModel releases the model that answers for all agents.
	releaseModel func()
	// prompted has the call IDs that the user was prompted for.
	prompted map[string]bool
	// reloads holds the latest reload status until it is printed.
	reloads chan loader.Status
	// reportedRevision is the revision of the last printed status.
	reportedRevision string
	// hasProblems reports that the last reload failed.
	hasProblems bool
}

// Open finds out whether the session is stored, and gives a new one its ID. A named session that is
// not stored is reported, because its ID may be misspelt; with MustExist it is
// [session.ErrNotFound].
func Open(ctx context.Context, opts Options) (*Conversation, error) {
	t := &Conversation{opts: opts, key: opts.Key, state: opts.State}
	if t.key.ID == "" {
		t.key.ID = uuid.NewString()
		return t, nil
	}
	_, err := opts.Host.Store().Sessions.Get(ctx, t.key, nil)
	switch {
	case err == nil:
		t.stored = true
	case !errors.Is(err, session.ErrNotFound):
		return nil, command.FailWith(err)
	case opts.MustExist:
		return nil, fmt.Errorf("session %s: %w", t.key.ID, session.ErrNotFound)
	default:
		fmt.Fprintf(opts.Env.Err, "session %s is new\n", t.key.ID)
	}
	return t, nil
}

// Key returns the session's key, which commands can change.
func (t *Conversation) Key() session.Key { return t.key }

// Loader returns the loader of the app's current files, while [Conversation.Talk] runs.
func (t *Conversation) Loader() *loader.Loader { return t.loader }

// Session reads the session, which is stored with its first message.
func (t *Conversation) Session(ctx context.Context) (*session.Session, error) {
	if !t.stored {
		return nil, errors.New("the session has no message yet")
	}
	return t.opts.Host.Store().Sessions.Get(ctx, t.key, nil)
}

// findConsent returns what authorizes the connection for a call, nil if the call does not wait for
// one.
func (t *Conversation) findConsent(call *genai.FunctionCall) *Consent {
	if t.opts.FindConsent == nil {
		return nil
	}
	return t.opts.FindConsent(call)
}
