package a2aserver

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"agenthost/internal/a2apart"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"agenthost/pkg/protocol/task"
	"agenthost/pkg/session"
	"agenthost/wing/a2aserver/a2arpc"
)

// A run's events reach its followers through a feed, here, or from the store, elsewhere:
//
//	run here        ──▶ feed ──▶ a follower's queue ──▶ its stream; partial events, too
//	run elsewhere   ──▶ store ──▶ read again and again ──▶ its stream; complete events
//	queue is full   ──▶ a partial event is omitted, as the complete one repeats it; a complete one sends
//	                    the follower to the store
//
// So no follower delays a run, and none misses a stored event.

// queueSize is how many events a follower may be late.
const queueSize = 512

// A feed hands a run's events to the clients that follow it.
type feed struct {
	mu     sync.Mutex
	queues []*queue
	closed bool
}

// A queue has the events that a follower has not read.
type queue struct {
	mu     sync.Mutex
	events []*session.Event
	closed bool
	// changed has a value after events were added, or the queue was closed.
	changed chan struct{}
}

// addEvent adds an event, and returns false if there is no room.
func (q *queue) addEvent(ev *session.Event) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.events) >= queueSize {
		return false
	}
	q.events = append(q.events, ev)
	q.signalChange()
	return true
}

// closeQueue closes the queue, after the events that it has.
func (q *queue) closeQueue() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.signalChange()
}

func (q *queue) signalChange() {
	select {
	case q.changed <- struct{}{}:
	default: // the follower has not seen the last change
	}
}

// drainEvents removes all events, and reports whether others may follow.
func (q *queue) drainEvents() (events []*session.Event, isOpen bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	events, q.events = q.events, nil
	return events, !q.closed
}

// addFollower returns a queue, which is closed when the run has ended, or the follower is too late.
func (f *feed) addFollower() *queue {
	q := &queue{changed: make(chan struct{}, 1)}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		q.closeQueue()
		return q
	}
	f.queues = append(f.queues, q)
	return q
}

func (f *feed) publishEvent(ev *session.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queues = slices.DeleteFunc(f.queues, func(q *queue) bool {
		if q.addEvent(ev) || ev.Partial {
			return false
		}
		q.closeQueue()
		return true
	})
}

// removeFollower drops a queue whose follower has left.
func (f *feed) removeFollower(q *queue) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queues = slices.DeleteFunc(f.queues, func(one *queue) bool { return one == q })
}

func (f *feed) closeQueues() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for _, q := range f.queues {
		q.closeQueue()
	}
	f.queues = nil
}

func (h *handlers) addFeed(id task.ID, f *feed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.feeds[id] = f
}

func (h *handlers) removeFeed(id task.ID, f *feed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.feeds[id] == f {
		delete(h.feeds, id)
	}
}

func (h *handlers) findFeed(id task.ID) *feed {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.feeds[id]
}

// openStream counts a stream until release is called.
func (h *handlers) openStream(user string) (release func(), err error) {
	if release, err = h.tasks.OpenStream(user); err != nil {
		return nil, a2arpc.NewBusyError(http.StatusTooManyRequests, err.Error())
	}
	return release, nil
}

// An eventWriter writes a stream's events.
type eventWriter struct {
	// yield writes an event or an error; false if the client has left.
	yield func(a2a.Event, error) bool
	// flush sends what yield has written; last is as in [server.Stream.SendFrames]. It is nil if yield sends.
	flush func(last bool)
}

// flushEvents sends what is written.
func (w eventWriter) flushEvents(last bool) {
	if w.flush != nil {
		w.flush(last)
	}
}

// A follower writes a task's events to a stream.
type follower struct {
	d    *door
	view *taskView
	// seen are the events that the client has, and numbers counts them.
	seen    map[string]bool
	numbers numbering
	// open are the artifacts of which the client has a chunk.
	open map[a2a.ArtifactID]bool
	eventWriter
}

func (d *door) newFollower(id task.ID, w eventWriter) *follower {
	return &follower{d: d, view: d.newView(id), seen: map[string]bool{}, numbers: numbering{}, open: map[a2a.ArtifactID]bool{}, eventWriter: w}
}

// skipEvents marks the events that the client has already.
func (f *follower) skipEvents(events []*session.Event) {
	for _, ev := range events {
		f.seen[ev.ID] = true
		if !ev.IsFromUser() {
			f.numbers[ev.Author]++
		}
	}
}

// sendEvent sends an event as an update of an artifact; false if the client has left. A complete event
// replaces the chunks before it.
func (f *follower) sendEvent(ctx context.Context, ev *session.Event) bool {
	if ev.IsFromUser() || f.seen[ev.ID] && !ev.Partial {
		return true
	}
	if !ev.Partial {
		f.seen[ev.ID] = true
		if a := f.view.buildArtifact(ev, f.numbers); a != nil && !f.sendArtifact(a) {
			return false
		}
		for _, a := range f.view.listSaved(ctx, ev) {
			if !f.sendArtifact(a) {
				return false
			}
		}
		return true
	}
	parts := a2apart.BuildParts(ev.Content, f.view.isADK, callIDs(ev))
	if len(parts) == 0 {
		return true
	}
	id := f.numbers.nextID(ev.Author)
	update := a2a.NewArtifactUpdateEvent(f.view.taskInfo(), id, parts...)
	update.Append, update.LastChunk = f.open[id], false
	update.Metadata, update.Artifact.Metadata = f.view.buildEventMetadata(ev), f.view.buildEventMetadata(ev)
	f.open[id] = true
	return f.yield(update, nil)
}

// sendArtifact sends a complete artifact; false if the client has left.
func (f *follower) sendArtifact(a *a2a.Artifact) bool {
	delete(f.open, a.ID)
	return f.yield(&a2a.TaskArtifactUpdateEvent{ContextID: f.view.id.Key.ID, TaskID: f.view.taskID, Artifact: a, LastChunk: true, Metadata: a.Metadata}, nil)
}

// callIDs lists a partial event's calls, which only the complete event sends.
func callIDs(ev *session.Event) []string {
	var all []string
	for _, c := range ev.Calls() {
		all = append(all, c.ID)
	}
	return all
}

// followQueue sends a feed's events until it is closed, and then what the store has besides, with the
// task's last state. Events that are there together leave together.
func (f *follower) followQueue(ctx context.Context, q *queue) {
	for {
		events, isOpen := q.drainEvents()
		for _, ev := range events {
			if !f.sendEvent(ctx, ev) {
				return
			}
		}
		f.flushEvents(!isOpen)
		if !isOpen {
			f.followStore(ctx)
			return
		}
		select {
		case <-q.changed:
		case <-ctx.Done():
			return
		case <-f.d.h.Stopping().Done():
			return
		}
	}
}

// followStore sends a task's stored events until no replica runs it, and then its state.
func (f *follower) followStore(ctx context.Context) {
	for {
		s, err := f.d.readTask(ctx, f.view.id)
		if err != nil {
			f.yield(nil, f.d.describeError(err))
			return
		}
		for _, ev := range s.Events {
			if !f.sendEvent(ctx, ev) {
				return
			}
		}
		if s.Status != task.Working {
			f.sendStatus(f.view.describeStatus(s))
			return
		}
		f.flushEvents(false)
		select {
		case <-time.After(task.FollowInterval):
		case <-ctx.Done():
			return
		case <-f.d.h.Stopping().Done():
			return
		}
	}
}

func (f *follower) sendStatus(status a2a.TaskStatus) bool {
	return f.yield(&a2a.TaskStatusUpdateEvent{ContextID: f.view.id.Key.ID, TaskID: f.view.taskID, Status: status, Metadata: f.view.buildMetadata()}, nil)
}
