package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	drainTurns = 100
	// secondSignalLimit is how long a host may live after a second signal.
	secondSignalLimit = time.Second
)

// slowApp answers in pieces, or after a tool, and takes a second and a half.
func slowApp() files {
	return files{
		"unhurried/app.yaml": scriptedModel,
		"unhurried/root_agent.yaml": `name: unhurried
model: demo
instruction: Take your time.
tools:
  - expr: {name: note, params: {text: string}, value: args.text, set: {last: args.text}}
`,
		"unhurried/script.yaml": `- when: user == "talk"
  text: one two three
  chunks: 3
  delay: 500ms
- when: responses.note != nil
  text: one two three
  delay: 750ms
- calls: [{name: note, args: {text: "a message"}}]
  delay: 750ms
`,
	}
}

// A draining is a host that is told to stop while turns are under way.
type drainProof struct {
	lab  *lab
	apps string

	rounds, turns int
	// cut are turns that did not come to their end, with a second signal on
	// purpose.
	cut, cutBySecond int
	codes            map[int]int // exit codes, by how often they came
	// readyTooLong are hosts that did not say that they want no runs while turns ran, and
	// wrong new turns that were not told to come again.
	readyTooLong, notRefused int
	longestExit              time.Duration // the longest that a host lived after a second signal
	firstErrors              []string
}

// drainRows is M22.
func drainRows(ctx context.Context, l *lab) ([]row, error) {
	d := &drainProof{lab: l, apps: filepath.Join(l.dir, "drain"), codes: map[int]int{}}
	if err := slowApp().writeTo(d.apps); err != nil {
		return nil, err
	}
	for range l.choose(3, 100) {
		if err := d.drainOnce(ctx); err != nil {
			return nil, err
		}
	}
	for range l.choose(1, 10) {
		if err := d.signalTwice(ctx); err != nil {
			return nil, err
		}
	}
	return []row{{
		"M22: a signal ends no turn that is under way, new ones are told to come again, and a second signal ends all",
		fmt.Sprintf("%d signals, %d turns under way: %d cut, %d times not 503 at /readyz while they ran, %d new turns not told to come again, exit codes %v%s; after a second signal gone within %s; control, that second signal: %d turns cut",
			d.rounds, d.turns, d.cut, d.readyTooLong, d.notRefused, d.codes, formatTrouble(d.firstErrors), roundMillis(d.longestExit), d.cutBySecond),
		d.turns == d.rounds*drainTurns && d.cut+d.readyTooLong+d.notRefused == 0 && d.codes[0] == d.rounds && len(d.codes) == 1 && d.longestExit < secondSignalLimit && d.cutBySecond > 0,
	}}, nil
}

// A crowd is turns under way.
type runningTurns struct {
	host     *host
	wg       sync.WaitGroup
	running  atomic.Int64
	cut      atomic.Int64
	firstErr atomic.Pointer[error]
}

// startTurns begins turns, half of them streams, and returns when each is under way.
func (d *drainProof) startTurns(ctx context.Context) (*runningTurns, error) {
	db := filepath.Join(d.lab.dir, "drain.db")
	if err := errors.Join(os.RemoveAll(db), os.RemoveAll(db+"-wal"), os.RemoveAll(db+"-shm")); err != nil {
		return nil, err
	}
	h, err := serveSQLite(ctx, d.lab, db, d.apps)
	if err != nil {
		return nil, err
	}
	c := &runningTurns{host: h}
	for i := range drainTurns {
		c.running.Add(1)
		c.wg.Go(func() {
			defer c.running.Add(-1)
			c.runTurn(ctx, i)
		})
	}
	probe := newClient(h.url, "unhurried", "none")
	defer probe.close()
	err = pollUntil(ctx, "all turns to be under way", func() (bool, error) {
		n, err := probe.readMetric(ctx, "agenthost_runs_running")
		return n == drainTurns, err
	})
	return c, err
}

// runTurn takes a turn, which has to come to its end.
func (c *runningTurns) runTurn(ctx context.Context, i int) {
	client := newClient(c.host.url, "unhurried", fmt.Sprint("s-", i))
	defer client.close()
	send := client.runTurnEvents
	if i%2 == 0 {
		send = client.streamTurnEvents
	}
	events, err := send(ctx, []string{"talk", "note"}[i/2%2])
	if err == nil && lastText(events) != "one two three" {
		err = fmt.Errorf("the last text is %q", lastText(events))
	}
	if err != nil {
		c.cut.Add(1)
		c.firstErr.CompareAndSwap(nil, &err)
	}
}

// drainOnce lets a host stop by itself.
func (d *drainProof) drainOnce(ctx context.Context) error {
	c, err := d.startTurns(ctx)
	if err != nil {
		return err
	}
	defer c.host.kill()
	d.rounds, d.turns = d.rounds+1, d.turns+int(c.running.Load())
	if err := c.host.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := d.checkRefusal(ctx, c); err != nil {
		return err
	}
	c.wg.Wait()
	d.cut += int(c.cut.Load())
	if first := c.firstErr.Load(); first != nil {
		d.firstErrors = append(d.firstErrors, (*first).Error())
	}
	if err := c.host.signalAndWait(0); err != nil {
		return err
	}
	d.codes[c.host.cmd.ProcessState.ExitCode()]++
	return nil
}

// checkRefusal waits until the host says that it wants no runs, and asks for one.
func (d *drainProof) checkRefusal(ctx context.Context, c *runningTurns) error {
	probe := newClient(c.host.url, "unhurried", "late")
	defer probe.close()
	err := pollUntil(ctx, "the host to say that it stops", func() (bool, error) {
		var r *statusError
		_, err := probe.sendRequest(ctx, http.MethodGet, "/readyz", nil)
		if errors.As(err, &r) && r.status == http.StatusServiceUnavailable {
			return true, nil
		}
		return false, err
	})
	if err != nil {
		return err
	}
	if c.running.Load() == 0 {
		d.readyTooLong++
	}
	var r *statusError
	if _, err := probe.runTurnEvents(ctx, "talk"); !errors.As(err, &r) || r.status != http.StatusServiceUnavailable || r.retryAfter == 0 {
		d.notRefused++
		d.firstErrors = append(d.firstErrors, fmt.Sprint("a new turn: ", err))
	}
	return nil
}

// signalTwice gives two signals.
func (d *drainProof) signalTwice(ctx context.Context) error {
	c, err := d.startTurns(ctx)
	if err != nil {
		return err
	}
	defer c.host.kill()
	if err := c.host.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := d.checkRefusal(ctx, c); err != nil {
		return err
	}
	began := time.Now()
	if err := c.host.signalAndWait(syscall.SIGTERM); err != nil {
		return err
	}
	d.longestExit = max(d.longestExit, time.Since(began))
	c.wg.Wait()
	d.cutBySecond += int(c.cut.Load())
	return nil
}

// readMetric reads a number of /metrics that has no labels.
func (c *client) readMetric(ctx context.Context, name string) (float64, error) {
	body, err := c.sendRequest(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	for lines := bufio.NewScanner(body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(text, 64)
		}
	}
	return 0, fmt.Errorf("/metrics has no %s", name)
}
