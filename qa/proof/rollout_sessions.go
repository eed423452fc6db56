package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

const (
	// shopperPause is between the turns of a client: one in a new session, one in an earlier one.
	shopperPause = 250 * time.Millisecond
	// shopperLimit is the maximum time for a turn with its retries.
	shopperLimit = time.Minute
)

// A shopper begins sessions, and returns to earlier ones.
type shopper struct {
	client      *client
	random      *rand.Rand
	sessions    []*shopSession
	turns, cut  int
	unanswered  int
	unexplained []error
}

// A shopSession is what a client has received in a session.
type shopSession struct {
	id string
	// rule is the one of the first answer.
	rule string
	// sent and answered are the times of the first turn. It was retried if cut.
	sent, answered time.Time
	cut            bool
	// answers are the texts of all answers, and stored those in the database at the end.
	answers, stored []string
}

func (s *stagedRun) newShopper(f *rolloutFleet, n int) *shopper {
	c := &shopper{client: newClient(f.proxy.url, s.app.name, fmt.Sprint("client-", n)), random: rand.New(rand.NewPCG(f.lab.seed, uint64(n)))}
	s.clients = append(s.clients, c)
	return c
}

// runUntil runs turns until quit is closed.
func (c *shopper) runUntil(ctx context.Context, quit <-chan struct{}) {
	defer c.client.close()
	name := c.client.session
	for n := 0; ; n++ {
		one := &shopSession{id: fmt.Sprint(name, "-", n), sent: time.Now()}
		c.sessions = append(c.sessions, one)
		answered := c.runTurn(ctx, one) && c.runTurn(ctx, c.sessions[c.random.IntN(len(c.sessions))])
		select {
		case <-quit:
			return
		case <-time.After(shopperPause):
		}
		if !answered {
			return
		}
	}
}

// runTurn runs a turn, and repeats it while it is cut off. A repeated message may be stored twice.
func (c *shopper) runTurn(ctx context.Context, s *shopSession) bool {
	ctx, cancel := context.WithTimeout(ctx, shopperLimit)
	defer cancel()
	c.turns++
	c.client.session = s.id
	text := fmt.Sprint("message ", c.turns)
	for {
		events, err := c.client.runTurnEvents(ctx, text)
		answer := lastText(events)
		if err == nil && !strings.HasPrefix(answer, text+" by Rule ") {
			err = &statusError{status: http.StatusOK, text: fmt.Sprintf("session %s: answer %q to %q", s.id, answer, text)}
		}
		if err == nil {
			if s.answers = append(s.answers, answer); len(s.answers) == 1 {
				s.rule, s.answered = ruleOf(answer), time.Now()
			}
			return true
		}
		c.cut++
		s.cut = s.cut || len(s.answers) == 0
		var r *statusError
		if errors.As(err, &r) && r.retryAfter == 0 && r.status != http.StatusBadGateway {
			c.unexplained = append(c.unexplained, err)
		}
		if waitFor(ctx, 100*time.Millisecond) != nil {
			c.unanswered++
			return false
		}
	}
}

// ruleOf returns the rule that an answer names: the instruction's first line.
func ruleOf(answer string) string {
	_, instruction, _ := strings.Cut(answer, " by ")
	rule, _, _ := strings.Cut(instruction, "\n")
	return rule
}

// readSessions reads each session's stored answers, and begins a session on each host: it must be on the
// revision that the last change has left.
func (f *rolloutFleet) readSessions(ctx context.Context) error {
	return runConcurrently(len(f.staged), func(i int) error {
		s := f.staged[i]
		for n, h := range f.hosts {
			if err := s.beginLast(ctx, h, n); err != nil {
				return err
			}
		}
		for _, c := range s.clients {
			defer c.client.close()
			for _, one := range c.sessions {
				c.client.session = one.id
				events, err := c.client.readEvents(ctx)
				if err != nil {
					return fmt.Errorf("reading session %s of app %s: %w", one.id, s.app.name, err)
				}
				for _, ev := range events {
					if text := ev.text(); ev.Author != "user" && text != "" {
						one.stored = append(one.stored, text)
					}
				}
			}
		}
		return nil
	})
}

// beginLast begins a session on a host that has read the state of the rollout.
func (s *stagedRun) beginLast(ctx context.Context, h *host, n int) error {
	c := &shopper{client: newClient(h.url, s.app.name, "")}
	defer c.client.close()
	if _, err := readRollout(ctx, c.client); err != nil {
		return fmt.Errorf("reading the rollout of app %s: %w", s.app.name, err)
	}
	one := &shopSession{id: fmt.Sprint("last-", n), sent: time.Now()}
	if !c.runTurn(ctx, one) {
		return fmt.Errorf("app %s, host %d: no answer after the last change: %w", s.app.name, n, errors.Join(c.unexplained...))
	}
	s.last = append(s.last, one.rule)
	return nil
}
