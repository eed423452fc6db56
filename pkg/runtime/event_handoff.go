package runtime

import (
	"sync"

	"agenthost/pkg/session"
)

// An eventHandoff passes the events of an agent that runs on its own goroutine
// to the goroutine of the run, one at a time.
type eventHandoff struct {
	out chan<- *eventHandoff
	ev  *session.Event
	err error

	acknowledged sync.WaitGroup
	proceed      bool
}

// sendEvent passes on an event and waits until it is acknowledged.
func (s *eventHandoff) sendEvent(ev *session.Event, err error) bool {
	s.ev, s.err = ev, err
	s.acknowledged.Add(1)
	s.out <- s
	s.acknowledged.Wait()
	return s.proceed
}

// deliverEvent yields the event to the consumer, and returns whether the run
// continues. It acknowledges the event even if the consumer panics, because
// the agent would otherwise wait forever.
func (s *eventHandoff) deliverEvent(yield func(*session.Event, error) bool) (proceed bool) {
	defer func() { s.acknowledgeEvent(proceed) }()
	return yield(s.ev, s.err) && s.err == nil
}

// acknowledgeEvent unblocks the agent, which continues if proceed is true. It
// must be called for each event, even when the run is over.
func (s *eventHandoff) acknowledgeEvent(proceed bool) {
	s.proceed = proceed
	s.acknowledged.Done()
}
