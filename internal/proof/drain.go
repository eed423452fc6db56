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
	// atOnce is how long a host may live after a second signal.
	atOnce = time.Second
)

// unhurried answers in pieces, or after a tool, and takes a second and a half.
func unhurried() files {
	return files{
		"unhurried/app.yaml": scripted,
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
type draining struct {
	lab  *lab
	apps string

	rounds, turns int
	// cut are turns that did not come to their end, with a second signal on
	// purpose.
	cut, cutBySecond int
	codes            map[int]int // exit codes, by how often they came
	// late are hosts that did not say that they want no runs while turns ran, and
	// wrong new turns that were not told to come again.
	late, wrong int
	outlived    time.Duration // the longest that a host lived after a second signal
	first       []string
}

// drainRows is M22.
func drainRows(ctx context.Context, l *lab) ([]row, error) {
	d := &draining{lab: l, apps: filepath.Join(l.dir, "drain"), codes: map[int]int{}}
	if err := unhurried().write(d.apps); err != nil {
		return nil, err
	}
	for range l.of(3, 100) {
		if err := d.round(ctx); err != nil {
			return nil, err
		}
	}
	for range l.of(1, 10) {
		if err := d.twice(ctx); err != nil {
			return nil, err
		}
	}
	return []row{{
		"M22: a signal ends no turn that is under way, new ones are told to come again, and a second signal ends all",
		fmt.Sprintf("%d signals, %d turns under way: %d cut, %d times not 503 at /readyz while they ran, %d new turns not told to come again, exit codes %v%s; after a second signal gone within %s; control, that second signal: %d turns cut",
			d.rounds, d.turns, d.cut, d.late, d.wrong, d.codes, told(d.first), round(d.outlived), d.cutBySecond),
		d.turns == d.rounds*drainTurns && d.cut+d.late+d.wrong == 0 && d.codes[0] == d.rounds && len(d.codes) == 1 && d.outlived < atOnce && d.cutBySecond > 0,
	}}, nil
}

// A crowd is turns under way.
type crowd struct {
	host    *host
	wg      sync.WaitGroup
	running atomic.Int64
	cut     atomic.Int64
	first   atomic.Pointer[error]
}

// gather begins turns, half of them streams, and returns when each is under way.
func (d *draining) gather(ctx context.Context) (*crowd, error) {
	db := filepath.Join(d.lab.dir, "drain.db")
	if err := errors.Join(os.RemoveAll(db), os.RemoveAll(db+"-wal"), os.RemoveAll(db+"-shm")); err != nil {
		return nil, err
	}
	h, err := serve(ctx, d.lab, db, d.apps)
	if err != nil {
		return nil, err
	}
	c := &crowd{host: h}
	for i := range drainTurns {
		c.running.Add(1)
		c.wg.Go(func() {
			defer c.running.Add(-1)
			c.turn(ctx, i)
		})
	}
	look := newClient(h.url, "unhurried", "none")
	defer look.close()
	err = until(ctx, "all turns to be under way", func() (bool, error) {
		n, err := look.figure(ctx, "agenthost_runs_running")
		return n == drainTurns, err
	})
	return c, err
}

// turn takes a turn, which has to come to its end.
func (c *crowd) turn(ctx context.Context, i int) {
	client := newClient(c.host.url, "unhurried", fmt.Sprint("s-", i))
	defer client.close()
	take := client.run
	if i%2 == 0 {
		take = client.stream
	}
	events, err := take(ctx, []string{"talk", "note"}[i/2%2])
	if err == nil && lastText(events) != "one two three" {
		err = fmt.Errorf("the last text is %q", lastText(events))
	}
	if err != nil {
		c.cut.Add(1)
		c.first.CompareAndSwap(nil, &err)
	}
}

// round lets a host stop by itself.
func (d *draining) round(ctx context.Context) error {
	c, err := d.gather(ctx)
	if err != nil {
		return err
	}
	defer c.host.kill()
	d.rounds, d.turns = d.rounds+1, d.turns+int(c.running.Load())
	if err := c.host.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := d.seesRefusal(ctx, c); err != nil {
		return err
	}
	c.wg.Wait()
	d.cut += int(c.cut.Load())
	if first := c.first.Load(); first != nil {
		d.first = append(d.first, (*first).Error())
	}
	if err := c.host.end(0); err != nil {
		return err
	}
	d.codes[c.host.cmd.ProcessState.ExitCode()]++
	return nil
}

// seesRefusal waits until the host says that it wants no runs, and asks for one.
func (d *draining) seesRefusal(ctx context.Context, c *crowd) error {
	look := newClient(c.host.url, "unhurried", "late")
	defer look.close()
	err := until(ctx, "the host to say that it stops", func() (bool, error) {
		var r *refusal
		_, err := look.ask(ctx, http.MethodGet, "/readyz", nil)
		if errors.As(err, &r) && r.status == http.StatusServiceUnavailable {
			return true, nil
		}
		return false, err
	})
	if err != nil {
		return err
	}
	if c.running.Load() == 0 {
		d.late++
	}
	var r *refusal
	if _, err := look.run(ctx, "talk"); !errors.As(err, &r) || r.status != http.StatusServiceUnavailable || r.after == 0 {
		d.wrong++
		d.first = append(d.first, fmt.Sprint("a new turn: ", err))
	}
	return nil
}

// twice gives two signals.
func (d *draining) twice(ctx context.Context) error {
	c, err := d.gather(ctx)
	if err != nil {
		return err
	}
	defer c.host.kill()
	if err := c.host.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := d.seesRefusal(ctx, c); err != nil {
		return err
	}
	began := time.Now()
	if err := c.host.end(syscall.SIGTERM); err != nil {
		return err
	}
	d.outlived = max(d.outlived, time.Since(began))
	c.wg.Wait()
	d.cutBySecond += int(c.cut.Load())
	return nil
}

// figure reads a number of /metrics that has no labels.
func (c *client) figure(ctx context.Context, name string) (float64, error) {
	body, err := c.ask(ctx, http.MethodGet, "/metrics", nil)
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
