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
	// secondSignalLimit is the maximum time until a host exits after a second signal.
	secondSignalLimit = time.Second
)

// slowApp returns an app whose answers take 1.5 s, in chunks or with a tool call.
func slowApp() files {
	return files{
		"slow/app.yaml": scriptedModel,
		"slow/root_agent.yaml": `name: slow
model: demo
instruction: Take your time.
tools:
  - expr: {name: note, params: {text: string}, value: args.text, set: {last: args.text}}
`,
		"slow/script.yaml": `- when: user == "talk"
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

// A drainProof stops hosts while turns are running.
type drainProof struct {
	lab  *lab
	apps string

	rounds, turns int
	// cut counts turns that did not complete, and cutBySecond those that a second
	// signal was meant to cut.
	cut, cutBySecond int
	codes            map[int]int // exits by exit code
	// readyTooLong counts hosts that stayed ready until all turns had completed, and
	// notRefused new turns that were not rejected with Retry-After.
	readyTooLong, notRefused int
	longestExit              time.Duration // longest time to exit after a second signal
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
		"M22: a graceful shutdown completes running turns and rejects new ones with Retry-After; a second signal cancels all",
		fmt.Sprintf("%d signals, %d running turns: %d cut off, %d times /readyz not 503 while they ran, %d new turns without 503 and Retry-After, exit codes %v%s; exit within %s after a second signal; control, the second signal: %d turns cut off",
			d.rounds, d.turns, d.cut, d.readyTooLong, d.notRefused, d.codes, formatTrouble(d.firstErrors), roundMillis(d.longestExit), d.cutBySecond),
		d.turns == d.rounds*drainTurns && d.cut+d.readyTooLong+d.notRefused == 0 && d.codes[0] == d.rounds && len(d.codes) == 1 && d.longestExit < secondSignalLimit && d.cutBySecond > 0,
	}}, nil
}

// runningTurns are concurrent turns on one host.
type runningTurns struct {
	host     *host
	wg       sync.WaitGroup
	running  atomic.Int64
	cut      atomic.Int64
	firstErr atomic.Pointer[error]
}

// startTurns starts turns, half streaming, and returns when all are running.
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
	probe := newClient(h.url, "slow", "none")
	defer probe.close()
	err = pollUntil(ctx, "all turns to be running", func() (bool, error) {
		n, err := probe.readMetric(ctx, "agenthost_runs_running")
		return n == drainTurns, err
	})
	return c, err
}

// runTurn runs one turn and records whether it completed.
func (c *runningTurns) runTurn(ctx context.Context, i int) {
	client := newClient(c.host.url, "slow", fmt.Sprint("s-", i))
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

// drainOnce sends one SIGTERM and waits for the exit.
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

// checkRefusal waits until the host is not ready and sends a new turn, which must be
// rejected.
func (d *drainProof) checkRefusal(ctx context.Context, c *runningTurns) error {
	probe := newClient(c.host.url, "slow", "late")
	defer probe.close()
	err := pollUntil(ctx, "the host to report that it is draining", func() (bool, error) {
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

// signalTwice sends a second SIGTERM while the host is draining.
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

// readMetric reads a metric without labels from /metrics.
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
	return 0, fmt.Errorf("metric %s not found", name)
}
