package runtime

import (
	goruntime "runtime"
	"sync"

	"agenthost/pkg/session"
)

// An eventHandoff is an agent that runs beside others, on a goroutine of its own. It hands
// over its events one by one.
type eventHandoff struct {
	out chan<- *eventHandoff
	ev  *session.Event
	err error

	acknowledged sync.WaitGroup
	proceed      bool
}

// sendEvent hands over an event, and waits until it is answered.
func (s *eventHandoff) sendEvent(ev *session.Event, err error) bool {
	s.ev, s.err = ev, err
	s.acknowledged.Add(1)
	s.out <- s
	s.acknowledged.Wait()
	return s.proceed
}

// deliverEvent gives the event to its consumer, and says whether the run goes on. The
// agent hears of it also when the consumer panics: it would wait for ever.
func (s *eventHandoff) deliverEvent(yield func(*session.Event, error) bool) (goOn bool) {
	defer func() { s.acknowledgeEvent(goOn) }()
	return yield(s.ev, s.err) && s.err == nil
}

// acknowledgeEvent says that the event was seen, and whether the agent goes on. It has to
// be called for each event, also when nobody wants more.
func (s *eventHandoff) acknowledgeEvent(goOn bool) {
	s.proceed = goOn
	s.acknowledged.Done()
}

// growStack makes room for an agent's run while the stack of a new goroutine is
// empty. Later it would be copied twice, with all that stands on it. What a
// function may need of the stack is there when it begins, so that nobody has to
// use it: the room would have to be cleared.
//
//go:noinline
func growStack(use bool) {
	if use {
		var room [6 << 10]byte
		goruntime.KeepAlive(&room)
	}
}
