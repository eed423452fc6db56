package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

const (
	liveTalks = 21
	// liveStride is the step between messages in the short form.
	liveStride = 3
	// maxStrikeDelay is the longest time between a message and the kill after it, so that kills
	// happen at all points while it is handled.
	maxStrikeDelay = 10 * time.Millisecond
)

// talkKinds returns a conversation's turns.
func talkKinds(i int) (app string, kinds []string) {
	app = []string{"older", "newer", "counting"}[i%3]
	all := [][]string{
		{turnText, turnAudio, turnCall},
		{turnCall, turnText, turnAudio},
		{turnWait, turnText, turnCall},
		{turnAudio, turnLeave, turnText},
		{turnLeave, turnCall, turnAudio},
		{turnAudio, turnWait, turnCall, turnText},
		{turnCall, turnCall, turnLeave},
	}
	return app, all[i/3%len(all)]
}

// A liveFault breaks all conversations at one of their messages.
type liveFault struct {
	letter, name string
	// clientSide counts the messages between clients and the host, instead of those
	// between the host and the model.
	clientSide bool
	// strike breaks all conversations; nil cuts each connection by itself.
	strike func(ctx context.Context, s *liveStage) error
}

func liveFaults() []liveFault {
	return []liveFault{
		{letter: "h", name: "kill -9 of the host", strike: func(ctx context.Context, s *liveStage) error {
			return errors.Join(s.host.kill(), s.startHost(ctx))
		}},
		{letter: "m", name: "kill -9 of the model's service", strike: func(ctx context.Context, s *liveStage) error {
			return errors.Join(s.model.killProcess(), s.startModel(ctx))
		}},
		{letter: "n", name: "cuts between host and model"},
		{letter: "c", name: "cuts between client and host", clientSide: true},
	}
}

// A liveRound is the conversations that are broken at the same message.
type liveRound struct {
	fault liveFault
	at    int // the message, from 1; 0 breaks nothing

	mu      sync.Mutex
	counts  map[string]int // messages by conversation
	held    int            // conversations at their message
	ended   int
	ready   chan struct{} // is closed when no conversation gets any further
	release chan struct{}
}

func newLiveRound(fault liveFault, at int) *liveRound {
	return &liveRound{fault: fault, at: at, counts: map[string]int{}, ready: make(chan struct{}), release: make(chan struct{})}
}

// countFrame counts a message. It waits until all conversations are at theirs, or cuts the
// connection.
func (r *liveRound) countFrame(conversation string) bool {
	r.mu.Lock()
	r.counts[conversation]++
	reached := conversation != "" && r.counts[conversation] == r.at
	if reached {
		r.held++
		r.reportReady()
	}
	r.mu.Unlock()
	if !reached {
		return true
	}
	if r.fault.strike == nil {
		return false
	}
	<-r.release
	return true
}

// endTalk reports that a conversation has ended.
func (r *liveRound) endTalk(conversation string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at == 0 || r.counts[conversation] < r.at {
		r.ended++
		r.reportReady()
	}
}

func (r *liveRound) reportReady() {
	if r.held+r.ended == liveTalks {
		close(r.ready)
	}
}

// A liveProof is the result of all rounds with a fault.
type liveProof struct {
	stage *liveStage
	fault liveFault

	rounds, talks, broken, reconnected, sockets, spoken, typed int
	violations                                                 liveViolations
	errs                                                       []error
	longest                                                    int // messages in the longest conversation
	// naive makes clients repeat turns without reading the session, as a control.
	naive bool
	// altered counts another control's altered histories, and detected those with violations.
	altered, detected int
	// calls, requests and twoKeys are the tool server's counts.
	calls, requests, twoKeys int
}

// runRound runs all conversations, breaks them at a message, and compares their sessions.
func (p *liveProof) runRound(ctx context.Context, at int, random *rand.Rand) error {
	r := newLiveRound(p.fault, at)
	p.stage.rounds++
	pass := func(string) bool { return true }
	p.stage.client.setHook(pass)
	p.stage.upstream.setHook(pass)
	if p.fault.clientSide {
		p.stage.client.setHook(r.countFrame)
	} else {
		p.stage.upstream.setHook(r.countFrame)
	}
	var wg sync.WaitGroup
	talks, errs := make([]*liveTalk, liveTalks), make([]error, liveTalks)
	for i := range talks {
		app, kinds := talkKinds(i)
		talks[i] = p.stage.newTalk(app, fmt.Sprintf("%s%dc%d", p.fault.letter, p.stage.rounds, i), kinds...)
		talks[i].naive = p.naive
		if err := talks[i].createSession(ctx); err != nil {
			return err
		}
	}
	for i, t := range talks {
		wg.Go(func() {
			errs[i] = t.runTalk(ctx)
			r.endTalk(t.session)
		})
	}
	err := p.strikeRound(ctx, r, random)
	wg.Wait()
	p.rounds++
	p.broken += r.held
	for i, t := range talks {
		p.longest = max(p.longest, r.counts[t.session])
		p.compareTalk(ctx, t, errs[i])
		t.close()
	}
	return errors.Join(err, ctx.Err())
}

// strikeRound breaks the conversations when all of them are at their message.
func (p *liveProof) strikeRound(ctx context.Context, r *liveRound, random *rand.Rand) error {
	limit := time.NewTimer(liveTalkLimit)
	defer limit.Stop()
	var err error
	select {
	case <-r.ready:
	case <-limit.C:
		err = fmt.Errorf("conversations did not reach message %d", r.at)
	case <-ctx.Done():
		err = ctx.Err()
	}
	close(r.release)
	if err != nil {
		return err
	}
	if p.fault.strike == nil || r.held == 0 {
		return nil
	}
	delay := time.Duration(random.Int64N(int64(maxStrikeDelay)))
	if err := waitFor(ctx, delay); err != nil {
		return err
	}
	return p.fault.strike(ctx, p.stage)
}

// compareTalk compares an ended conversation's session.
func (p *liveProof) compareTalk(ctx context.Context, t *liveTalk, err error) {
	p.talks++
	p.sockets += t.sockets
	p.spoken += t.spoken
	p.typed += t.typed
	expected := 1
	for _, turn := range t.turns {
		if turn.kind == turnLeave {
			expected++
		}
	}
	if p.stage.upstream.countOpened(t.session) > expected {
		p.reconnected++
	}
	events, readErr := t.readLiveEvents(ctx)
	if err := errors.Join(err, readErr); err != nil {
		p.errs = append(p.errs, err)
	}
	v := checkLiveHistory(t.turns, events, t.received)
	for i, detail := range v.details {
		v.details[i] = t.app + " " + t.session + ": " + detail
	}
	p.violations.addAll(v)
	if v.countAll() == 0 {
		for _, altered := range alterHistory(t.turns, events, t.received) { // the checks must detect it
			p.altered++
			if found := checkLiveHistory(t.turns, altered, t.received); found.countAll() > 0 {
				p.detected++
			}
		}
	} else if !p.naive {
		p.stage.printLine("%s", describeLiveEvents(t, v, events))
	}
}

// describeLiveEvents returns a conversation's history with violations.
func describeLiveEvents(t *liveTalk, v liveViolations, events []liveEvent) string {
	var b strings.Builder
	fmt.Fprintln(&b, strings.Join(v.details, "\n"))
	for i, ev := range events {
		fmt.Fprintf(&b, "  %2d %s %s", i, ev.Author, ev.joinText())
		for _, part := range ev.Content.Parts {
			if part.FunctionCall != nil {
				b.WriteString(" call " + part.FunctionCall.ID)
			}
			if part.FunctionResponse != nil {
				b.WriteString(" response " + part.FunctionResponse.ID)
			}
		}
		fmt.Fprintf(&b, " in %q out %q", ev.InputTranscription.Text, ev.OutputTranscription.Text)
		if ev.Interrupted {
			b.WriteString(" interrupted")
		}
		if ev.TurnComplete {
			b.WriteString(" complete")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// liveKillRows breaks the conversations at each of their messages.
func liveKillRows(ctx context.Context, l *lab) (rows []row, err error) {
	for _, fault := range liveFaults() {
		r, err := runLiveFault(ctx, l, fault)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", fault.name, err)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// runLiveFault runs the conversations without the fault, and then with it at each message.
func runLiveFault(ctx context.Context, l *lab, fault liveFault) (r row, err error) {
	stage, err := newLiveStage(ctx, l, "live-"+fault.letter)
	if err != nil {
		return row{}, err
	}
	defer func() { err = errors.Join(err, stage.stopAll()) }()
	random := rand.New(rand.NewPCG(l.seed, uint64(fault.letter[0])))
	p := &liveProof{stage: stage, fault: fault}
	if err := p.runRound(ctx, 0, random); err != nil {
		return row{}, err
	}
	intact := *p
	*p = liveProof{stage: stage, fault: fault}
	stride := l.choose(liveStride, 1)
	for at := 1 + random.IntN(stride); at <= intact.longest; at += stride {
		if err := p.runRound(ctx, at, random); err != nil {
			return row{}, err
		}
	}
	p.calls, p.requests, p.twoKeys = stage.tools.countCalls()
	control := &liveProof{stage: stage, fault: fault, naive: true}
	if fault.breaksSockets() {
		if err := control.runRound(ctx, intact.longest/2, random); err != nil {
			return row{}, err
		}
	}
	return p.buildRow(&intact, control), nil
}

// breaksSockets reports whether clients open another socket after the fault.
func (f *liveFault) breaksSockets() bool { return f.clientSide || f.letter == "h" }

// buildRow returns a fault's row.
func (p *liveProof) buildRow(intact, control *liveProof) row {
	v := p.violations
	ok := p.broken > 0 && p.reconnected > 0 && len(p.errs)+len(intact.errs) == 0 && v.countAll()+intact.violations.countAll() == 0 && p.twoKeys == 0 &&
		p.altered > 0 && p.detected == p.altered
	controls := fmt.Sprintf("control, altered histories: %d of %d detected", p.detected, p.altered)
	if p.fault.breaksSockets() {
		controls += fmt.Sprintf("; control, clients that repeat turns without reading the session: %d doubled", control.violations.doubled)
		ok = ok && control.violations.doubled > 0
	} else {
		ok = ok && p.typed == 0 && p.sockets == p.talks
	}
	return row{
		"live: " + p.fault.name + " at any message: nothing is lost, doubled or misplaced, no tool runs twice, and the conversation continues",
		fmt.Sprintf("%d conversations, %d broken at %d messages, %d connected to the model again, %d sockets of clients; the user repeated %d spoken and %d typed turns; %d failed%s; %d lost, %d doubled, %d misplaced, %d unanswered; %d calls in %d requests, %d with two idempotency keys; %d violations without faults; %s",
			p.talks, p.broken, p.rounds, p.reconnected, p.sockets, p.spoken, p.typed, len(p.errs), formatErrors(p.errs), v.lost, v.doubled, v.misplaced, v.unanswered, p.calls, p.requests, p.twoKeys, intact.violations.countAll(), controls),
		ok,
	}
}

// formatErrors returns the errors as part of a result.
func formatErrors(errs []error) string {
	err := errors.Join(errs...)
	if err == nil {
		return ""
	}
	return ": " + strings.ReplaceAll(err.Error(), "\n", "; ")
}
