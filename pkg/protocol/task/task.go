// Package task has turns that do not end with their request, as doors offer them under several names:
// the tasks of MCP and A2A, and OpenAI's responses in the background.
//
// A task is the turn that a message began. It follows from the session's events, so it needs no table:
// any replica reads the same state, also after a restart.
//
//	Start  ──▶ a run that continues without its request
//	Read   ──▶ the state in the session's events; an interrupted run is resumed
//	Cancel ──▶ ends the run, here or on another replica
//
// A task is looked up in a session of its caller, so that another user's task is unknown.
package task

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"agenthost/internal/safe"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
)

// Limits for the runs of one door that continue without their requests.
const (
	maxRuns = 1024
	// MaxUserRuns limits one user's runs.
	MaxUserRuns = 64
	// maxStreams and MaxUserStreams limit the open streams that follow tasks.
	maxStreams     = 8192
	MaxUserStreams = 256
)

// FollowInterval is how often a followed task is read from the store.
const FollowInterval = 250 * time.Millisecond

var (
	// ErrUnknown reports a task that the caller does not have.
	ErrUnknown = errors.New("unknown task")
	// ErrTooMany reports that the user, or all users of the door, have too many runs in progress.
	ErrTooMany = fmt.Errorf("tasks in progress exceed the limit of %d for a user", MaxUserRuns)
	// ErrTooManyStreams reports that the user, or all users of the door, have too many open streams.
	ErrTooManyStreams = errors.New("too many open streams")
	// ErrNotLast reports that a task cannot be canceled, because a later one has begun in its session.
	ErrNotLast = errors.New("a later task has begun in the session")
	// ErrPanicked is the error of a run that panicked; the cause is in the log.
	ErrPanicked = errors.New("internal error")
)

// An ID names a task: its session, and the invocation that began it.
type ID struct {
	Key        session.Key
	Invocation string
}

// Tasks run and read the tasks of one door. All methods may be called concurrently.
type Tasks struct {
	*server.Services
	mu sync.Mutex
	// running counts the runs by user, and runs has those whose message is stored.
	running map[string]int
	runs    map[ID]*Run
	// streams counts the open streams by user.
	streams map[string]int
}

// New returns tasks without runs.
func New(s *server.Services) *Tasks {
	return &Tasks{Services: s, running: map[string]int{}, runs: map[ID]*Run{}, streams: map[string]int{}}
}

// A Run is a run that continues without its request.
type Run struct {
	// started receives the invocation once the message is stored.
	started chan string
	ended   chan struct{}
	cancel  context.CancelFunc
	err     error
}

// Start calls run in its own goroutine, with a context that outlives ctx; it is run's to end it with the
// host's limits ([server.Services.StartRun]). run calls started with the invocation once the message is
// stored, and again for each further one. id has the invocation only if run resumes it. The error is
// ErrTooMany.
//
// If run returns a [runtime.RunError] whose reason is in no event, the reason is stored, so that every
// replica reports it, and none resumes the run.
func (t *Tasks) Start(ctx context.Context, id ID, run func(ctx context.Context, started func(invocation string)) error) (*Run, error) {
	if !t.countRun(id.Key.User) {
		return nil, ErrTooMany
	}
	r := &Run{started: make(chan string, 1), ended: make(chan struct{})}
	ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(r.ended)
		defer r.cancel()
		defer func() { t.dropRun(id, r) }()
		defer safe.Recover(func(caught *safe.Panic) {
			caught.Log(t.Logger(), "task panicked", "app", id.Key.App, "session", id.Key.ID)
			r.err = ErrPanicked
		})
		r.err = run(ctx, func(invocation string) {
			id.Invocation = invocation
			t.addRun(id, r)
			select {
			case r.started <- invocation:
			default: // a further message
			}
		})
		if failure, ok := errors.AsType[*runtime.RunError](r.err); ok {
			t.recordFailure(ctx, id, failure)
		}
	}()
	return r, nil
}

// countRun counts a run until dropRun; it returns false for one too many.
func (t *Tasks) countRun(user string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := 0
	for _, n := range t.running {
		all += n
	}
	if all >= maxRuns || t.running[user] >= MaxUserRuns {
		return false
	}
	t.running[user]++
	return true
}

// OpenStream counts a user's stream until release is called. The error is ErrTooManyStreams.
func (t *Tasks) OpenStream(user string) (release func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := 0
	for _, n := range t.streams {
		all += n
	}
	if all >= maxStreams || t.streams[user] >= MaxUserStreams {
		return nil, ErrTooManyStreams
	}
	t.streams[user]++
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.streams[user]--; t.streams[user] == 0 {
			delete(t.streams, user)
		}
	}), nil
}

func (t *Tasks) addRun(id ID, r *Run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.runs[id] = r
}

func (t *Tasks) dropRun(id ID, r *Run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running[id.Key.User]--; t.running[id.Key.User] == 0 {
		delete(t.running, id.Key.User)
	}
	if t.runs[id] == r {
		delete(t.runs, id)
	}
}

func (t *Tasks) findRun(id ID) *Run {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.runs[id]
}

// Ended is closed when the run has ended.
func (r *Run) Ended() <-chan struct{} { return r.ended }

// Err returns the run's error. It may be called after Ended.
func (r *Run) Err() error { return r.err }

// Cancel ends the run, and waits until it has ended.
func (r *Run) Cancel() {
	r.cancel()
	<-r.ended
}

// WaitForStart returns the invocation once the message is stored; it is empty for a run that ends
// before, and for a client that has left. It may be called once.
func (r *Run) WaitForStart(ctx context.Context) string {
	select {
	case id := <-r.started:
		return id
	case <-ctx.Done():
		return ""
	case <-r.ended:
	}
	select {
	case id := <-r.started:
		return id
	default:
		return ""
	}
}

// A Status is how far a task has come.
type Status int

// The statuses.
const (
	// Working is a task that a replica runs.
	Working Status = iota
	// Waiting is a task with pending calls, which no replica runs.
	Waiting
	Completed
	// Failed is a task whose run had an error; State.Failure is the reason.
	Failed
	Canceled
)

// A State is a task as the session has it.
type State struct {
	*Turn
	Status  Status
	Failure string
}

// Find returns a task's turn. The error is ErrUnknown, or the store's.
func (t *Tasks) Find(ctx context.Context, id ID) (*Turn, error) {
	sess, err := t.getSession(ctx, id.Key)
	if err != nil {
		return nil, err
	}
	found := FindTurn(sess.Events(), id.Invocation)
	if found == nil {
		return nil, ErrUnknown
	}
	return found, nil
}

// FindMessage returns the message that began a task. Its error is Find's.
func (t *Tasks) FindMessage(ctx context.Context, id ID) (*session.Event, error) {
	sess, err := t.getSession(ctx, id.Key)
	if err != nil {
		return nil, err
	}
	for _, ev := range sess.Events() {
		if ev.InvocationID == id.Invocation && ev.IsFromUser() && ev.Content != nil && !ev.Provenance.Imported {
			return ev, nil
		}
	}
	return nil, ErrUnknown
}

// getSession returns a session. Its error is Find's.
func (t *Tasks) getSession(ctx context.Context, key session.Key) (*session.Session, error) {
	sess, err := t.Host().Store().Sessions.Get(ctx, key, nil)
	if errors.Is(err, session.ErrNotFound) {
		return nil, ErrUnknown
	}
	if err != nil {
		return nil, server.WithSessionKey(key, err)
	}
	return sess, nil
}

// Read returns a task's state. If its run was interrupted and any replica can continue it, resume starts
// a run that does. The error is that of Find.
func (t *Tasks) Read(ctx context.Context, id ID, resume func() (*Run, error)) (*State, error) {
	isRunning, err := t.Host().Store().Sessions.IsRunning(ctx, id.Key)
	if err != nil {
		return nil, server.WithSessionKey(id.Key, err)
	}
	found, err := t.Find(ctx, id) // after IsRunning: a run that has ended meanwhile has its events
	if err != nil {
		return nil, err
	}
	s := found.readState(isRunning)
	if s.Status != Failed || s.Failure != reasonInterrupted || !found.isResumable() {
		return s, nil
	}
	run, err := resume()
	if err != nil {
		return s, nil
	}
	if run.WaitForStart(ctx) == "" && ctx.Err() == nil && run.Err() != nil {
		s.Failure = "the run was interrupted, and cannot be resumed: " + run.Err().Error()
		return s, nil
	}
	return &State{Turn: found, Status: Working}, nil
}

// ReadEnded returns the task to which an invocation belongs whose run has ended, and its state, which no other
// run of the session changes. The invocation may be that of an answer. A task that a replica can continue is
// Working. The error is that of Find.
func (t *Tasks) ReadEnded(ctx context.Context, id ID) (ID, *State, error) {
	sess, err := t.getSession(ctx, id.Key)
	if err != nil {
		return ID{}, nil, err
	}
	found := findTurnWith(sess.Events(), id.Invocation)
	if found == nil {
		return ID{}, nil, ErrUnknown
	}
	s := found.readState(false)
	if s.Status == Failed && s.Failure == reasonInterrupted && found.isResumable() {
		s.Status = Working
	}
	return ID{id.Key, found.Events[0].InvocationID}, s, nil
}

// List returns the tasks of a session, the oldest first, without resuming one. The error is that of Find.
func (t *Tasks) List(ctx context.Context, key session.Key) ([]*State, error) {
	isRunning, err := t.Host().Store().Sessions.IsRunning(ctx, key)
	if err != nil {
		return nil, server.WithSessionKey(key, err)
	}
	sess, err := t.getSession(ctx, key)
	if err != nil {
		return nil, err
	}
	var all []*State
	for _, turn := range ListTurns(sess.Events()) {
		all = append(all, turn.readState(isRunning))
	}
	return all, nil
}

const reasonInterrupted = "the run was interrupted"

// readState returns the state that the turn's events have.
func (t *Turn) readState(isRunning bool) *State {
	s := &State{Turn: t}
	switch {
	case isRunning && t.IsLast:
	case t.findFailure() != "":
		s.Status, s.Failure = Failed, t.findFailure()
	case t.IsCanceled():
		s.Status = Canceled
	case len(t.Pending) > 0:
		s.Status = Waiting
	case t.hasEnded():
		s.Status = Completed
	default:
		s.Status, s.Failure = Failed, reasonInterrupted
	}
	return s
}

// Cancel ends a task's run, and waits for its end. Without a run here the reason is stored, and a run of
// another replica can store nothing more. The error is ErrNotLast for a task that waits while a later one
// has begun, whose run it must not end, or that of Find.
func (t *Tasks) Cancel(ctx context.Context, id ID, reason string) error {
	found, err := t.Find(ctx, id)
	if err != nil {
		return err
	}
	if !found.IsLast {
		return ErrNotLast
	}
	sessions := t.Host().Store().Sessions
	r := t.findRun(id)
	if sessions.CancelRun(id.Key) {
		if r == nil {
			return nil // a run of another door
		}
		select {
		case <-r.ended:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if _, err := sessions.TakeOver(ctx, id.Key); err != nil && !errors.Is(err, session.ErrNotFound) {
		return server.WithSessionKey(id.Key, err)
	}
	return t.endTurn(ctx, id, &runtime.RunError{Code: runtime.CodeAborted, Message: reason}, nil)
}

func (t *Tasks) recordFailure(ctx context.Context, id ID, failure *runtime.RunError) {
	if id.Invocation == "" || isInterruption(failure) {
		return
	}
	if err := t.endTurn(ctx, id, failure, map[string]any{failureKey: true}); err != nil {
		t.Logger().Warn("storing the failure of a task failed", "app", id.Key.App, "session", id.Key.ID, "error", err)
	}
}

// isInterruption reports whether a replica can continue the run that an error has ended: another run or a
// shutdown stopped it, or the store was not available.
func isInterruption(err *runtime.RunError) bool {
	return slices.Contains([]string{
		runtime.CodeCanceled, runtime.CodeUnavailable, runtime.CodeSessionBusy, runtime.CodeSessionTaken, runtime.CodeSessionNotFound,
	}, err.Code)
}

// endTurn stores an event with the reason why a turn ends, unless the turn has ended.
func (t *Tasks) endTurn(ctx context.Context, id ID, reason *runtime.RunError, mark map[string]any) error {
	app := t.Host().App(id.Key.App)
	if app == nil {
		return ErrUnknown
	}
	ev := &session.Event{ID: uuid.NewString(), InvocationID: id.Invocation, Author: app.Root().Name(), Timestamp: t.Now()}
	ev.ErrorCode, ev.ErrorMessage, ev.CustomMetadata = reason.Code, reason.Message, mark
	sessions := t.Host().Store().Sessions
	held, release, err := sessions.Acquire(ctx, id.Key, time.Second)
	if err != nil {
		return server.WithSessionKey(id.Key, err)
	}
	defer release()
	sess, err := sessions.Get(held, id.Key, nil)
	if err != nil {
		return server.WithSessionKey(id.Key, err)
	}
	if found := FindTurn(sess.Events(), id.Invocation); found == nil || found.hasEnded() && len(found.Pending) == 0 {
		return nil
	}
	return sessions.Append(held, sess, ev)
}
