package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"agenthost/pkg/server"
)

const (
	// mixedGrowth is how much live memory may grow from one half of the load to the next, in MB,
	// without the race detector's memory.
	mixedGrowth = 8.0
	// upstreamWait is the maximum time for a turn whose model, tool or MCP server is hostile: far
	// above its app's timeouts, also under the race detector.
	upstreamWait = time.Minute
	// upstreamClients is how many clients use the apps with hostile upstreams.
	upstreamClients = 2
	// oversized is a body length above the server's limit.
	oversized = 40 << 20
)

// A mixedLoad sends honest turns, turns to apps with hostile upstreams, hostile requests, forged
// histories and oversized bodies to one host concurrently. The host is built with the race
// detector.
type mixedLoad struct {
	host   *host
	length time.Duration
	// keepSessions never deletes a session and gives each a large state: the control.
	keepSessions bool

	honest    turnCount
	report    *attackReport
	forgeries atomic.Int64
	worked    atomic.Int64
	large     atomic.Int64
	accepted  atomic.Int64 // oversized bodies that were not rejected
	nextApp   atomic.Int64 // for the apps with hostile upstreams
	upstreams turnCount    // turns with hostile upstreams; failed if there is no end
	halves    []mixedRest  // what the host holds after each half of the load
}

// A mixedRest is what a host holds when the load has ended.
type mixedRest struct {
	liveMB              float64
	handles, goroutines int
}

// mixedRows runs the mixed load for 20 seconds, or ten minutes in the full form.
func mixedRows(ctx context.Context, l *lab) ([]row, error) {
	raceBin := filepath.Join(l.dir, "agenthost-race")
	build := exec.CommandContext(ctx, "go", "build", "-race", "-tags=grpcnotrace", "-o", raceBin, "./cmd/agenthost")
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building with the race detector: %w: %s", err, out)
	}
	raceLab := *l
	raceLab.bin = raceBin
	m := &mixedLoad{length: 20 * time.Second}
	if l.full {
		m.length = 10 * time.Minute
	}
	if err := m.runLoad(ctx, &raceLab, "mixed"); err != nil {
		return nil, err
	}
	control := &mixedLoad{length: 20 * time.Second, keepSessions: true}
	if err := control.runLoad(ctx, l, "mixed-control"); err != nil {
		return nil, err
	}
	return []row{m.buildRow(control)}, nil
}

func (m *mixedLoad) buildRow(control *mixedLoad) row {
	log := m.host.log.String()
	races, panics := strings.Count(log, "WARNING: DATA RACE"), strings.Count(log, "panic")
	problems := slices.Clone(m.report.first)
	if first := m.honest.firstErr.Load(); first != nil {
		problems = append(problems, "an honest turn: "+(*first).Error())
	}
	if first := m.upstreams.firstErr.Load(); first != nil {
		problems = append(problems, "a hostile upstream: "+(*first).Error())
	}
	if races+panics > 0 {
		problems = append(problems, "the log: "+log[:min(len(log), 2000)])
	}
	return row{
		fmt.Sprintf("%s of mixed load with hostile upstreams, forged and oversized requests: no 5xx, data race or memory growth", m.length),
		fmt.Sprintf("%d honest turns, %d failed; %d turns with hostile upstreams, %d without an end; %d hostile requests, %d unexplained 5xx; %d forgeries, %d with an effect; %d oversized bodies, %d accepted; %d data races, %d panics%s; "+
			"%s after each half; control, sessions that are never deleted: %.1f and %.1f MB live",
			m.honest.turns.Load(), m.honest.failed.Load(), m.upstreams.turns.Load(), m.upstreams.failed.Load(), m.report.requests, m.report.serverErrors, m.forgeries.Load(), m.worked.Load(), m.large.Load(), m.accepted.Load(), races, panics, formatTrouble(problems),
			formatRests(m.halves), control.halves[0].liveMB, control.halves[1].liveMB),
		m.honest.turns.Load() > 0 && m.honest.failed.Load() == 0 && m.upstreams.turns.Load() > 0 && m.upstreams.failed.Load() == 0 && m.report.serverErrors+races+panics == 0 && m.forgeries.Load() > 0 && m.worked.Load() == 0 &&
			m.large.Load() > 0 && m.accepted.Load() == 0 && m.liveGrowth() < mixedGrowth && control.liveGrowth() > mixedGrowth &&
			m.halves[1].handles <= m.halves[0].handles+moreHandles && m.halves[1].goroutines <= m.halves[0].goroutines+moreGoroutines,
	}
}

// liveGrowth returns how much live memory grew from the first half to the second, in MB.
func (m *mixedLoad) liveGrowth() float64 { return m.halves[1].liveMB - m.halves[0].liveMB }

func formatRests(rests []mixedRest) string {
	var shown []string
	for _, r := range rests {
		shown = append(shown, fmt.Sprintf("%.1f MB live, %d file handles, %d goroutines", r.liveMB, r.handles, r.goroutines))
	}
	return strings.Join(shown, " and ")
}

// runLoad serves the apps under load for the configured length.
func (m *mixedLoad) runLoad(ctx context.Context, l *lab, name string) (err error) {
	apps := filepath.Join(l.dir, name)
	if err := errors.Join(guideApp().writeTo(apps), victimApp().writeTo(apps), tillApp(true).writeTo(apps), panelApp().writeTo(apps)); err != nil {
		return err
	}
	hostile := httptest.NewServer(upstream{})
	defer hostile.Close()
	evil, names := upstreamApps(hostile.URL)
	if err := evil.writeTo(apps); err != nil {
		return err
	}
	url := "sqlite:///" + filepath.Join(l.dir, name+".db")
	if m.keepSessions {
		url = "memory:"
	}
	if m.host, err = serveStore(ctx, l, url, apps, "--pprof", "--artifacts", "memory:"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.host.kill()) }()
	m.report = &attackReport{statuses: map[int]int{}}
	for half := range 2 {
		if err := m.runHalf(ctx, l.seed+uint64(half), names); err != nil {
			return err
		}
		rest, err := m.measureRest(ctx)
		if err != nil {
			return err
		}
		m.halves = append(m.halves, rest)
	}
	return nil
}

// runHalf sends all kinds of traffic concurrently for half the length.
func (m *mixedLoad) runHalf(ctx context.Context, seed uint64, hostileApps []string) error {
	loadCtx, cancel := context.WithTimeout(ctx, m.length/2)
	defer cancel()
	var wg sync.WaitGroup
	for i := range companions {
		wg.Go(func() { m.runHonestClient(loadCtx, fmt.Sprint(seed, "-", i)) })
	}
	if !m.keepSessions {
		for range upstreamClients {
			wg.Go(func() { m.runHostileUpstreams(loadCtx, hostileApps) })
		}
		wg.Go(func() { m.runForgeries(loadCtx) })
		wg.Go(func() { m.sendOversized(loadCtx) })
	}
	err := m.sendHostile(loadCtx, seed)
	wg.Wait()
	return errors.Join(err, ctx.Err())
}

// measureRest waits until the host has ended what its clients left, and measures it: until
// memory no longer falls.
func (m *mixedLoad) measureRest(ctx context.Context) (rest mixedRest, err error) {
	rest.liveMB = math.Inf(1)
	for fell := true; fell; {
		if err := waitFor(ctx, 3*time.Second); err != nil {
			return rest, err
		}
		live, _, err := m.host.liveMemory()
		if err != nil {
			return rest, err
		}
		fell = live < rest.liveMB-0.5
		rest.liveMB = min(live, rest.liveMB)
	}
	if rest.handles, _, err = m.host.countHandles(); err != nil {
		return rest, err
	}
	rest.goroutines, err = m.host.countLiveGoroutines()
	return rest, err
}

// runHonestClient runs honest turns in consecutive sessions.
func (m *mixedLoad) runHonestClient(ctx context.Context, name string) {
	for n := 0; ctx.Err() == nil; n++ {
		c := newClient(m.host.url, "guide", fmt.Sprintf("honest-%s-%d", name, n))
		for turn := 1; turn <= sessionLife && ctx.Err() == nil; turn++ {
			request := c.newRunRequest("hi", turn%2 == 0).(map[string]any)
			if m.keepSessions {
				request["stateDelta"] = map[string]any{fmt.Sprint("k", turn): strings.Repeat("x", 20_000)}
			}
			var events []event
			var err error
			if turn%2 == 0 {
				events, err = c.postRunSSE(ctx, request)
			} else {
				events, err = c.postRun(ctx, request)
			}
			if ctx.Err() != nil {
				break
			}
			if want := fmt.Sprintf("Turn %d:", turn); err == nil && !strings.HasPrefix(lastText(events), want) {
				err = fmt.Errorf("%q does not begin with %q", lastText(events), want)
			}
			m.honest.addTurn(err, false)
		}
		if !m.keepSessions {
			_ = c.deleteSession(ctx)
		}
		c.close()
	}
}

// runHostileUpstreams runs turns with the apps that have hostile upstreams, in fresh sessions. Each
// turn ends, with an answer, a run error, or 503 and Retry-After.
func (m *mixedLoad) runHostileUpstreams(ctx context.Context, apps []string) {
	for ctx.Err() == nil {
		n := int(m.nextApp.Add(1))
		c := newClient(m.host.url, apps[n%len(apps)], fmt.Sprint("upstream-", n))
		turnCtx, cancel := context.WithTimeout(ctx, upstreamWait)
		_, err := c.postRunSSE(turnCtx, c.newRunRequest("go", n/len(apps)%2 == 0))
		if failed := (*statusError)(nil); errors.As(err, &failed) && (failed.runFailed || failed.retryAfter > 0) {
			err = nil // reported in the stream, or 503 with Retry-After
		}
		if ctx.Err() == nil {
			if err != nil {
				err = fmt.Errorf("%s: %w", c.app, err)
			}
			m.upstreams.addTurn(err, false)
			_ = c.deleteSession(ctx)
		}
		cancel()
		c.close()
	}
}

// runForgeries runs all forgeries repeatedly.
func (m *mixedLoad) runForgeries(ctx context.Context) {
	f := &forger{client: newClient(m.host.url, "till", "none")}
	f.user = "forger"
	defer f.close()
	for ctx.Err() == nil {
		for _, attack := range allForgeries() {
			succeeded, err := attack.attempt(ctx, f)
			if ctx.Err() != nil {
				return
			}
			m.forgeries.Add(1)
			if succeeded || err != nil {
				m.worked.Add(1)
			}
			_ = f.deleteSession(ctx)
		}
	}
}

// sendOversized sends bodies above the limit.
func (m *mixedLoad) sendOversized(ctx context.Context) {
	c := &http.Client{Transport: new(http.Transport)}
	defer c.CloseIdleConnections()
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.host.url+"/run", &endless{left: oversized})
		if err != nil {
			return
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := c.Do(req)
		if ctx.Err() != nil {
			return
		}
		m.large.Add(1)
		if err == nil { // the host may also close the connection
			if res.StatusCode != http.StatusRequestEntityTooLarge {
				m.accepted.Add(1)
			}
			_ = res.Body.Close()
		}
		if waitFor(ctx, 500*time.Millisecond) != nil {
			return
		}
	}
}

// endless is a JSON string without an end.
type endless struct{ left int }

// Read implements io.Reader.
func (e *endless) Read(p []byte) (int, error) {
	n := min(len(p), e.left)
	if n == 0 {
		return 0, errors.New("the client gave up")
	}
	for i := range p[:n] {
		p[i] = 'x'
	}
	if e.left == oversized {
		copy(p, `{"appName": "`)
	}
	e.left -= n
	return n, nil
}

// sendHostile sends hostile requests until the context ends.
func (m *mixedLoad) sendHostile(ctx context.Context, seed uint64) error {
	a := &requestGenerator{random: rand.New(rand.NewPCG(seed, 7)), patterns: server.New(nil, &server.Options{Metrics: server.NewMetrics(""), Extensions: serverExtensions()}).Patterns()}
	for ctx.Err() == nil {
		report, err := sendHostileRequests(ctx, strings.TrimPrefix(m.host.url, "http://"), a, 100)
		m.report.requests += report.requests
		m.report.serverErrors += report.serverErrors
		m.report.first = append(m.report.first, report.first...)
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}
