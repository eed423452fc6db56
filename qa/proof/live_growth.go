package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// growthTalkers is how many users talk at the same time, and growthLong how many have
	// conversations with growthTurns turns.
	growthTalkers = 8
	growthLong    = 2
	growthTurns   = 1000
	// growthHeld is how many conversations the control leaves open.
	growthHeld = 20
	// moreLiveMB is how much the live heap may grow. A leak of 1 KiB in each conversation exceeds
	// it in an hour.
	moreLiveMB = 4
	// moreLiveGoroutines is how many more goroutines than after the warm-up are permitted: database
	// and HTTP client connections come and go.
	moreLiveGoroutines = 4
)

// liveUse is what a host without conversations holds.
type liveUse struct {
	goroutines, handles int
	heapMB              float64
}

// hasGrown reports whether the host holds more than after the warm-up.
func (u liveUse) hasGrown(warm liveUse) bool {
	return u.goroutines > warm.goroutines+moreLiveGoroutines || u.handles > warm.handles+moreHandles || u.heapMB > warm.heapMB+moreLiveMB
}

func (u liveUse) String() string {
	return fmt.Sprintf("%d goroutines, %d file handles, %.1f MB", u.goroutines, u.handles, u.heapMB)
}

// A growthProof talks to a host for a long time.
type growthProof struct {
	stage *liveStage

	talks, turns, cuts, next atomic.Int64
	mu                       sync.Mutex
	violations               liveViolations
	errs                     []error
}

// liveGrowthRows holds many short conversations, whose connections are cut, and a few long
// ones, and compares what the host holds afterwards with what it held after a warm-up.
func liveGrowthRows(ctx context.Context, l *lab) (rows []row, err error) {
	stage, err := newLiveStage(ctx, l, "live-growth", "--pprof")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stage.stopAll()) }()
	length := time.Duration(l.choose(60, 3600)) * time.Second
	p := &growthProof{stage: stage}
	stage.client.setHook(p.cutSometimes)
	stage.upstream.setHook(p.cutSometimes)
	warm, err := p.talkFor(ctx, length/6)
	if err != nil {
		return nil, err
	}
	end, err := p.talkFor(ctx, length-length/6)
	if err != nil {
		return nil, err
	}
	held, err := p.measureHeld(ctx)
	if err != nil {
		return nil, err
	}
	return []row{p.buildRow(length, warm, end, held)}, nil
}

func (p *growthProof) buildRow(length time.Duration, warm, end, held liveUse) row {
	return row{
		"live: over a long time of conversations and cuts the host's goroutines, file handles and heap do not grow",
		fmt.Sprintf("%d conversations with %d turns and %d cuts in %s, %d failed%s, %d violations; after the warm-up %s; at the end %s; control, %d conversations left open: %s",
			p.talks.Load(), p.turns.Load(), p.cuts.Load(), length, len(p.errs), formatErrors(p.errs), p.violations.countAll(), warm, end, growthHeld, held),
		p.talks.Load() > 0 && p.cuts.Load() > 0 && len(p.errs) == 0 && p.violations.countAll() == 0 && !end.hasGrown(warm) && held.hasGrown(warm),
	}
}

// cutSometimes cuts one connection in a hundred messages.
func (p *growthProof) cutSometimes(conversation string) bool {
	if strings.HasPrefix(conversation, "long") || rand.IntN(100) > 0 {
		return true
	}
	p.cuts.Add(1)
	return false
}

// talkFor talks for a time, ends all conversations and measures the host.
func (p *growthProof) talkFor(ctx context.Context, length time.Duration) (liveUse, error) {
	over, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	var wg sync.WaitGroup
	for range growthTalkers {
		wg.Go(func() {
			for over.Err() == nil {
				n := int(p.next.Add(1))
				app, kinds := talkKinds(n)
				p.runShortTalk(ctx, p.stage.newTalk(app, fmt.Sprintf("short%dc0", n), kinds...))
			}
		})
	}
	for i := range growthLong {
		wg.Go(func() {
			for over.Err() == nil {
				p.runLongTalk(ctx, over, fmt.Sprintf("long%dc%d", p.next.Add(1), i))
			}
		})
	}
	wg.Wait()
	return p.measureIdle(ctx)
}

// runShortTalk holds a conversation, compares its session and deletes it.
func (p *growthProof) runShortTalk(ctx context.Context, t *liveTalk) {
	defer t.close()
	err := t.createSession(ctx)
	if err == nil {
		err = t.runTalk(ctx)
	}
	events, readErr := t.readLiveEvents(ctx)
	p.talks.Add(1)
	p.turns.Add(int64(len(t.turns)))
	v := checkLiveHistory(t.turns, events, t.received)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.violations.addAll(v)
	if v.countAll() > 0 {
		p.stage.printLine("%s", describeLiveEvents(t, v, events))
	}
	if err := errors.Join(err, readErr, t.deleteEnded(ctx)); err != nil {
		p.errs = append(p.errs, err)
	}
}

// deleteEnded deletes the session when its run has ended.
func (t *liveTalk) deleteEnded(ctx context.Context) error {
	return pollUntil(ctx, "the run of "+t.session+" to end", func() (bool, error) {
		err := t.deleteSession(ctx)
		var refused *statusError
		if errors.As(err, &refused) && refused.status == http.StatusConflict {
			return false, nil
		}
		return true, err
	})
}

// runLongTalk takes one turn after the other on one socket until the time is over, or until
// growthTurns.
func (p *growthProof) runLongTalk(ctx, over context.Context, name string) {
	t := p.stage.newTalk("older", name, turnText)
	t.more = func() bool {
		n := len(t.turns)
		if over.Err() != nil || n >= growthTurns {
			return false
		}
		t.turns = append(t.turns, &liveTurn{kind: []string{turnText, turnAudio, turnCall}[n%3], name: fmt.Sprintf("%s-t%d", name, n)})
		return waitFor(over, 50*time.Millisecond) == nil
	}
	p.runShortTalk(ctx, t)
}

// measureHeld measures the host with conversations that no one ends.
func (p *growthProof) measureHeld(ctx context.Context) (liveUse, error) {
	held, cancel := context.WithCancel(ctx)
	defer cancel()
	p.stage.client.setHook(func(string) bool { return true })
	p.stage.upstream.setHook(func(string) bool { return true })
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	started := make(chan struct{}, growthHeld)
	for i := range growthHeld {
		t := p.stage.newTalk("newer", fmt.Sprintf("held%dc0", i), turnText)
		if err := t.createSession(ctx); err != nil {
			return liveUse{}, err
		}
		t.more = func() bool {
			started <- struct{}{}
			<-held.Done()
			return false
		}
		wg.Go(func() { _ = t.runTalk(held); t.close() })
	}
	for range growthHeld {
		select {
		case <-started:
		case <-time.After(waitLimit):
			return liveUse{}, errors.New("the conversations of the control did not start")
		}
	}
	return p.measureIdle(ctx)
}

// measureIdle waits until two consecutive polls see equally many goroutines, and measures the host.
func (p *growthProof) measureIdle(ctx context.Context) (liveUse, error) {
	var u liveUse
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	err := pollUntil(ctx, "the host to be idle", func() (bool, error) {
		<-ticker.C
		before := u
		var err error
		if u.heapMB, _, err = p.stage.host.liveMemory(); err != nil {
			return false, err
		}
		if u.goroutines, err = p.stage.host.countRunningGoroutines(); err != nil {
			return false, err
		}
		u.handles, _, err = p.stage.host.countHandles()
		return u.goroutines == before.goroutines && u.handles == before.handles, err
	})
	return u, err
}

// countRunningGoroutines counts the goroutines in a host that serves with --pprof.
func (h *host) countRunningGoroutines() (n int, err error) {
	resp, err := http.Get(h.url + "/debug/pprof/goroutine?debug=1")
	if err != nil {
		return 0, err
	}
	defer http.DefaultClient.CloseIdleConnections() // open connections would count
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	_, err = fmt.Sscanf(string(text), "goroutine profile: total %d", &n)
	return n, err
}
