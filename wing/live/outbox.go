package live

import (
	"slices"
	"sync"
	"time"

	"agenthost/pkg/model"
)

// Outbox bounds.
const (
	// MaxOutgoingAudio is how many bytes of audio and images wait for a slow model; the oldest ones
	// are dropped.
	MaxOutgoingAudio = 1 << 20
	// MaxOutgoingOther and MaxOutgoingBytes limit how many other frames wait and their size; then
	// the run reads no more client requests ([Outbox.HasSpace]).
	MaxOutgoingOther = 256
	MaxOutgoingBytes = 4 << 20
	// MaxReplayBytes and MaxReplayAge bound the frames that are kept until the model has
	// confirmed them.
	MaxReplayBytes = 4 << 20
	MaxReplayAge   = 20 * time.Second
	// MaxAudioAge is how old audio may be to be worth sending on the next connection.
	MaxAudioAge = 2 * time.Second
)

// An Outbox holds the frames for a model, across connections: those that wait to be sent,
// and those that were sent and may be missing in the state that the next connection resumes.
// It is safe for concurrent use; one goroutine at a time sends.
type Outbox struct {
	mu      sync.Mutex
	waiting []heldFrame
	audio   int // media bytes in waiting
	sent    []heldFrame
	kept    int   // bytes in sent
	count   int64 // frames sent on this connection
	dropped int
	sending bool
	paused  bool
	space   chan struct{}
	// replay reports that the connection counts frames, so that media is kept as well.
	replay bool
	ready  chan struct{}
	idle   chan struct{} // is closed when nothing waits any more; nil if no one waits for that
}

// A heldFrame is a frame with what decides about sending it again.
type heldFrame struct {
	frame *model.LiveFrame
	size  int
	// stored reports that the session has the frame's contents, so that a new conversation
	// has it anyway.
	stored bool
	at     time.Time
	index  int64 // on the connection, from 1
	// seed marks the session's history, which only begins a conversation.
	seed bool
	// answered reports that the model has begun an answer after the frame was sent.
	answered bool
}

// NewOutbox returns an empty outbox.
func NewOutbox() *Outbox {
	return &Outbox{ready: make(chan struct{}, 1), space: make(chan struct{}, 1)}
}

// Push adds a frame. Stored reports that the session has its contents.
func (o *Outbox) Push(frame *model.LiveFrame, stored bool, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if size := mediaSize(frame); size > 0 {
		o.dropOldestMedia(size)
		o.audio += size
	}
	o.waiting = append(o.waiting, heldFrame{frame: frame, size: frameSize(frame), stored: stored, at: now})
	o.signalReady()
}

// Seed begins a conversation: the session's history is sent before all that waits, and then, unless
// it is nil, a frame that asks the model to speak.
func (o *Outbox) Seed(history, speak *model.LiveFrame, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	first := []heldFrame{{frame: history, size: frameSize(history), stored: true, seed: true, at: now}}
	if speak != nil {
		first = append(first, heldFrame{frame: speak, size: frameSize(speak), stored: true, at: now})
	}
	o.waiting = append(first, o.waiting...)
	o.signalReady()
}

// HasSpace reports whether the run may read another client request.
func (o *Outbox) HasSpace() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	others, size := 0, 0
	for i := range o.waiting {
		if f := &o.waiting[i]; mediaSize(f.frame) == 0 && !f.seed {
			others++
			size += f.size
		}
	}
	return others < MaxOutgoingOther && size < MaxOutgoingBytes
}

// Dropped returns how much audio and how many images were dropped.
func (o *Outbox) Dropped() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.dropped
}

// Space returns a channel that has a value when [Outbox.HasSpace] may have become true.
func (o *Outbox) Space() <-chan struct{} { return o.space }

// Pause lets frames wait, until [Outbox.Unpause].
func (o *Outbox) Pause() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.paused = true
}

// Unpause ends a pause.
func (o *Outbox) Unpause() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.paused = false
	o.signalReady()
}

// Ready returns a channel that has a value when [Outbox.Next] may return a frame.
func (o *Outbox) Ready() <-chan struct{} { return o.ready }

// Idle returns a channel that is closed when no frame waits and none is being sent.
func (o *Outbox) Idle() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.idle == nil {
		o.idle = make(chan struct{})
	}
	idle := o.idle
	o.reportIdle()
	return idle
}

func (o *Outbox) reportIdle() {
	if o.idle != nil && len(o.waiting) == 0 && !o.sending {
		close(o.idle)
		o.idle = nil
	}
}

// Next removes the oldest frame for sending; nil if there is none. The sender calls
// [Outbox.Sent] when it has sent the frame, or fails and leaves it to [Outbox.Resume].
func (o *Outbox) Next(now time.Time) *model.LiveFrame {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.waiting) == 0 || o.paused {
		return nil
	}
	f := o.waiting[0]
	o.waiting[0] = heldFrame{}
	o.waiting = o.waiting[1:]
	o.audio -= mediaSize(f.frame)
	o.count++
	f.index = o.count
	o.sending = true
	if !f.seed && (o.replay || mustArrive(f.frame)) {
		o.sent = append(o.sent, f)
		o.kept += f.size
		o.pruneSent(now)
	}
	if len(o.waiting) > 0 {
		o.signalReady()
	}
	return f.frame
}

// Sent reports that the frame from the last [Outbox.Next] was sent.
func (o *Outbox) Sent() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sending = false
	o.reportIdle()
	select {
	case o.space <- struct{}{}:
	default:
	}
}

// BeginTurn reports that the model begins an answer to what was sent before.
func (o *Outbox) BeginTurn() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := len(o.sent) - 1; i >= 0 && !o.sent[i].answered; i-- {
		o.sent[i].answered = true
	}
}

// CompleteTurn reports that the answer is complete. The frames that it answers are dropped, so
// that no answer is given twice.
func (o *Outbox) CompleteTurn() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dropSent(func(f heldFrame) bool { return f.answered })
}

// Confirm reports a state that the next connection can resume. It contains the connection's first
// consumed frames; 0 means that the model does not count, and the state contains what it has
// answered.
func (o *Outbox) Confirm(consumed int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dropSent(func(f heldFrame) bool {
		if consumed > 0 {
			return f.index <= consumed
		}
		return f.answered
	})
}

func (o *Outbox) dropSent(settled func(heldFrame) bool) {
	o.sent = slices.DeleteFunc(o.sent, func(f heldFrame) bool {
		if !settled(f) {
			return false
		}
		o.kept -= f.size
		return true
	})
}

// Resume prepares the outbox for a connection that resumes the last confirmed state. If the
// ended connection counted frames, every unconfirmed frame is sent again in order. If not,
// the model may have received more than it confirmed: texts and responses are sent again, media
// is not. Replay reports that the next connection counts frames.
func (o *Outbox) Resume(replay bool, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	counted := o.replay
	o.restartWith(slices.DeleteFunc(append(o.sent, o.waiting...), func(f heldFrame) bool {
		return f.seed || !counted && isOldMedia(f, now)
	}), replay)
}

// Restart prepares the outbox for a new conversation that begins with what the session has
// stored: frames that are stored, or that were sent, belong to the past.
func (o *Outbox) Restart(replay bool, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.restartWith(slices.DeleteFunc(o.waiting, func(f heldFrame) bool { return f.stored || isOldMedia(f, now) }), replay)
}

func isOldMedia(f heldFrame, now time.Time) bool {
	return mediaSize(f.frame) > 0 && now.Sub(f.at) > MaxAudioAge
}

func (o *Outbox) restartWith(frames []heldFrame, replay bool) {
	o.waiting, o.sent, o.kept, o.count, o.sending, o.audio, o.replay = nil, nil, 0, 0, false, 0, replay
	for _, f := range frames {
		f.answered = false
		o.audio += mediaSize(f.frame)
		o.waiting = append(o.waiting, f)
	}
	o.reportIdle()
	if len(o.waiting) > 0 {
		o.signalReady()
	}
}

func (o *Outbox) signalReady() {
	select {
	case o.ready <- struct{}{}:
	default:
	}
}

// dropOldestMedia drops the oldest waiting media until there is space for more.
func (o *Outbox) dropOldestMedia(size int) {
	o.waiting = slices.DeleteFunc(o.waiting, func(f heldFrame) bool {
		old := mediaSize(f.frame)
		if old == 0 || o.audio+size <= MaxOutgoingAudio {
			return false
		}
		o.audio -= old
		o.dropped++
		return true
	})
}

// pruneSent keeps the unconfirmed frames within their bounds. Media goes first; texts and
// responses only when they alone exceed the bound.
func (o *Outbox) pruneSent(now time.Time) {
	o.sent = slices.DeleteFunc(o.sent, func(f heldFrame) bool {
		old := mediaSize(f.frame) > 0 && (o.kept > MaxReplayBytes || now.Sub(f.at) > MaxReplayAge)
		if old {
			o.kept -= f.size
		}
		return old
	})
	for o.kept > MaxReplayBytes && len(o.sent) > 1 {
		o.kept -= o.sent[0].size
		o.sent = o.sent[1:]
	}
}

// mustArrive reports whether a frame must not be lost: texts and responses.
func mustArrive(f *model.LiveFrame) bool {
	return len(f.Turns) > 0 || f.Text != "" || len(f.Responses) > 0
}

func mediaSize(f *model.LiveFrame) int {
	if f.Blob == nil {
		return 0
	}
	return max(1, len(f.Blob.Data))
}

// frameSize estimates a frame's memory.
func frameSize(f *model.LiveFrame) int {
	size := 256 + mediaSize(f) + len(f.Text)
	for _, c := range f.Turns {
		for _, p := range c.Parts {
			size += 64 + len(p.Text)
			if p.InlineData != nil {
				size += len(p.InlineData.Data)
			}
		}
	}
	for _, r := range f.Responses {
		size += 256 + valueSize(r.Response)
	}
	return size
}

// valueSize estimates a JSON value's memory.
func valueSize(v any) int {
	const valueBytes = 16
	size := valueBytes
	switch v := v.(type) {
	case string:
		size += len(v)
	case map[string]any:
		for key, item := range v {
			size += len(key) + valueSize(item)
		}
	case []any:
		for _, item := range v {
			size += valueSize(item)
		}
	}
	return size
}
