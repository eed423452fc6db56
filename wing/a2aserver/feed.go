package a2aserver

import (
	"context"
	"sync"
	"time"

	"agenthost/internal/a2apart"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"agenthost/pkg/protocol/task"
	"agenthost/pkg/session"
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
	queues []chan *session.Event
	closed bool
}

// addFollower returns a queue, which is closed when the run has ended, or the follower is too late.
func (f *feed) addFollower() chan *session.Event {
	queue := make(chan *session.Event, queueSize)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		close(queue)
		return queue
	}
	f.queues = append(f.queues, queue)
	return queue
}

func (f *feed) publishEvent(ev *session.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kept := f.queues[:0]
	for _, queue := range f.queues {
		select {
		case queue <- ev:
			kept = append(kept, queue)
		default:
			if ev.Partial {
				kept = append(kept, queue)
				continue
			}
			close(queue)
		}
	}
	f.queues = kept
}

// removeFollower drops a queue whose follower has left.
func (f *feed) removeFollower(queue chan *session.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, one := range f.queues {
		if one == queue {
			f.queues = append(f.queues[:i], f.queues[i+1:]...)
			return
		}
	}
}

func (f *feed) closeQueues() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for _, queue := range f.queues {
		close(queue)
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
		return nil, a2a.NewError(a2a.ErrServerError, err.Error())
	}
	return release, nil
}

// A follower writes a task's events to a stream.
type follower struct {
	d    *door
	view *taskView
	// seen are the events that the client has, and numbers counts them.
	seen    map[string]bool
	numbers numbering
	// open are the artifacts of which the client has a chunk.
	open  map[a2a.ArtifactID]bool
	yield func(a2a.Event, error) bool
}

func (d *door) newFollower(id task.ID, yield func(a2a.Event, error) bool) *follower {
	return &follower{d: d, view: d.newView(id), seen: map[string]bool{}, numbers: numbering{}, open: map[a2a.ArtifactID]bool{}, yield: yield}
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
	update := a2a.NewArtifactUpdateEvent(f.view.taskInfo(), a.ID, a.Parts...)
	update.Artifact, update.LastChunk, update.Append, update.Metadata = a, true, false, a.Metadata
	delete(f.open, a.ID)
	return f.yield(update, nil)
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
// task's last state.
func (f *follower) followQueue(ctx context.Context, queue chan *session.Event) {
	for {
		select {
		case ev, ok := <-queue:
			if !ok {
				f.followStore(ctx)
				return
			}
			if !f.sendEvent(ctx, ev) {
				return
			}
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
	update := a2a.NewStatusUpdateEvent(f.view.taskInfo(), status.State, status.Message)
	update.Status, update.Metadata = status, f.view.buildMetadata()
	return f.yield(update, nil)
}
