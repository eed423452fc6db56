package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// stallTimeout is when the host closes a client that does not read, and stallSlack
	// how much later it may do so.
	stallTimeout = 30 * time.Second
	stallSlack   = 5 * time.Second
	// stalledMemory is the maximum memory for one client, in KiB.
	stalledMemory = 256
	// maxStallSlowdown is the maximum ratio between other turns' CPU time with and without stalled
	// clients.
	maxStallSlowdown = 1.1
	// torrentSize is a stream's size: more than the kernel buffers for a client with a small
	// receive buffer.
	torrentSize = 800_000
)

// torrentApp returns an app that answers with a large stream in many chunks.
func torrentApp() files {
	return files{
		"torrent/app.yaml":        scriptedModel,
		"torrent/root_agent.yaml": "name: torrent\nmodel: demo\ninstruction: Talk.\n",
		"torrent/script.yaml":     "- text: \"" + strings.Repeat(strings.Repeat("x", 7999)+" ", torrentSize/8000) + "\"\n  chunks: 100\n",
	}
}

// A stallProof has a host with clients that start streams and do not read them.
type stallProof struct {
	lab     *lab
	host    *host
	clients int

	before, during turnCost
	memory         float64       // KiB for each client
	closed         time.Duration // time until all were closed; 0 is never
	afterStall     resources
}

// A turnCost is what turns cost.
type turnCost struct{ processor, p99 time.Duration }

// stalledRows is M28.
func stalledRows(ctx context.Context, l *lab) (rows []row, err error) {
	s := &stallProof{lab: l, clients: l.choose(300, 1000)}
	apps := filepath.Join(l.dir, "stalled")
	if err := errors.Join(torrentApp().writeTo(apps), guideApp().writeTo(apps)); err != nil {
		return nil, err
	}
	fresh, err := measureFreshHost(ctx, l, "sqlite:///"+filepath.Join(l.dir, "stalled-fresh.db"), apps)
	if err != nil {
		return nil, err
	}
	if s.host, err = serveStore(ctx, l, "sqlite:///"+filepath.Join(l.dir, "stalled.db"), apps, "--pprof"); err != nil {
		return nil, err
	}
	defer s.host.kill()
	if err := s.measureStall(ctx); err != nil {
		return nil, err
	}
	control, stillOpen, err := runNaiveStreams(ctx, 50)
	if err != nil {
		return nil, err
	}
	closed := "never"
	if s.closed > 0 {
		closed = "after " + roundMillis(s.closed).String()
	}
	return []row{{
		"M28: clients that do not read their streams are closed after 30 s and do not slow down others",
		fmt.Sprintf("%d clients, all closed %s; %.0f KiB each; a turn of others took %.3f ms of CPU time without them and %.3f ms with them, p99 %s and %s; %d → %d file handles, %d → %d goroutines; control, a server without a write timeout: %d of 50 open after %s, %.0f KiB each",
			s.clients, closed, s.memory, toMillis(s.before.processor), toMillis(s.during.processor), s.before.p99.Round(100*time.Microsecond), s.during.p99.Round(100*time.Microsecond),
			fresh.handles, s.afterStall.handles, fresh.goroutines, s.afterStall.goroutines, stillOpen, stallTimeout+stallSlack, control),
		s.closed > stallTimeout-stallSlack && s.closed <= stallTimeout+stallSlack && s.memory > 0 && s.memory < stalledMemory &&
			float64(s.during.processor) <= maxStallSlowdown*float64(s.before.processor) &&
			s.afterStall.handles <= fresh.handles+moreHandles && s.afterStall.goroutines <= fresh.goroutines+moreGoroutines && stillOpen == 50 && control > stalledMemory,
	}}, nil
}

// liveMemory returns the host's live memory in MB.
func (s *stallProof) liveMemory() (float64, error) {
	heap, stacks, err := s.host.liveMemory()
	return heap + stacks, err
}

// measureStall measures turns before and during the stall, and waits until the clients
// are closed.
func (s *stallProof) measureStall(ctx context.Context) (err error) {
	if s.before, err = s.measureTurns(ctx, "before"); err != nil {
		return err
	}
	handles, _, err := s.host.countHandles()
	if err != nil {
		return err
	}
	before, err := s.liveMemory()
	if err != nil {
		return err
	}
	conns, err := openStalledStreams(ctx, strings.TrimPrefix(s.host.url, "http://"), s.clients, "torrent")
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	if err != nil {
		return err
	}
	probe := newClient(s.host.url, "torrent", "none")
	defer probe.close()
	err = pollUntil(ctx, "all streams to be running", func() (bool, error) {
		n, err := probe.readMetric(ctx, "agenthost_runs_running")
		return int(n) == s.clients, err
	})
	if err != nil {
		return err
	}
	if err := s.waitUntilIdle(ctx); err != nil {
		return err
	}
	began := time.Now() // the last client has just stalled
	now, err := s.liveMemory()
	if err != nil {
		return err
	}
	s.memory = (now - before) * 1024 / float64(s.clients)
	if s.during, err = s.measureTurns(ctx, "during"); err != nil {
		return err
	}
	for s.closed == 0 && time.Since(began) < 2*stallTimeout {
		if err := waitFor(ctx, 200*time.Millisecond); err != nil {
			return err
		}
		open, _, err := s.host.countHandles()
		if err != nil {
			return err
		}
		if open <= handles+moreHandles {
			s.closed = time.Since(began)
		}
	}
	s.afterStall, err = s.host.measureResources(ctx)
	return err
}

// waitUntilIdle waits until the host is nearly idle, because until then it still writes
// to some streams.
func (s *stallProof) waitUntilIdle(ctx context.Context) error {
	var spent time.Duration
	return pollUntil(ctx, "all streams to stall", func() (bool, error) {
		now, err := processorTime(s.host.cmd.Process.Pid)
		before := spent
		spent = now
		return now-before < 30*time.Millisecond, errors.Join(err, waitFor(ctx, time.Second))
	})
}

// measureTurns measures other clients' turns, the best of three rounds.
func (s *stallProof) measureTurns(ctx context.Context, name string) (best turnCost, err error) {
	for n := range 3 {
		before, err := processorTime(s.host.cmd.Process.Pid)
		if err != nil {
			return best, err
		}
		var mu sync.Mutex
		var took []time.Duration
		err = runConcurrently(companions, func(i int) error {
			c := newClient(s.host.url, "guide", fmt.Sprint(name, "-", n, "-", i))
			defer c.close()
			for range 2 * measuredTurns / companions {
				began := time.Now()
				if _, err := c.runTurn(ctx, "hi"); err != nil {
					return err
				}
				mu.Lock()
				took = append(took, time.Since(began))
				mu.Unlock()
			}
			return nil
		})
		after, failure := processorTime(s.host.cmd.Process.Pid)
		if err := errors.Join(err, failure); err != nil {
			return best, err
		}
		slices.Sort(took)
		e := turnCost{(after - before) / time.Duration(len(took)), percentile(took, 99)}
		if n == 0 || e.processor < best.processor {
			best.processor = e.processor
		}
		if n == 0 || e.p99 < best.p99 {
			best.p99 = e.p99
		}
	}
	return best, nil
}

// openStalledStreams opens connections that request a stream and do not read. Receive buffers and
// segments are small, so that the host's send buffer stays small too.
func openStalledStreams(ctx context.Context, addr string, n int, app string) ([]net.Conn, error) {
	d := &net.Dialer{Control: func(_, _ string, c syscall.RawConn) (err error) {
		failure := c.Control(func(fd uintptr) {
			err = errors.Join(
				syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096),
				syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, 1000),
			)
		})
		return errors.Join(err, failure)
	}}
	conns := make([]net.Conn, n)
	err := runConcurrently(n, func(i int) (err error) {
		if conns[i], err = d.DialContext(ctx, "tcp", addr); err != nil {
			return err
		}
		body := fmt.Sprintf(`{"appName":%q,"userId":"user","sessionId":"stalled-%d","streaming":true,"newMessage":{"parts":[{"text":"hi"}]}}`, app, i)
		_, err = conns[i].Write(buildRequest("POST", "/run_sse", []string{"Content-Type: application/json"}, []byte(body)))
		return err
	})
	return slices.DeleteFunc(conns, func(c net.Conn) bool { return c == nil }), err
}

// runNaiveStreams is the control: a server that builds its whole response and writes it without a
// timeout. It returns the KiB for each client and how many clients are still connected after the
// timeout.
func runNaiveStreams(ctx context.Context, n int) (memory float64, open int, err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, 0, err
	}
	var mu sync.Mutex
	web := &http.Server{ErrorLog: log.New(io.Discard, "", 0), Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		open++
		mu.Unlock()
		w.Write(bytes.Repeat([]byte("data: x\n\n"), torrentSize/9))
		mu.Lock()
		open--
		mu.Unlock()
	})}
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(l) }()
	before := heapBytes()
	conns, err := openStalledStreams(ctx, l.Addr().String(), n, "")
	if err == nil {
		err = waitFor(ctx, stallTimeout+stallSlack)
	}
	mu.Lock()
	stillOpen := open
	mu.Unlock()
	memory = float64(heapBytes()-before) / 1024 / float64(n)
	for _, c := range conns {
		c.Close()
	}
	err = errors.Join(err, web.Close())
	if failure := <-ended; !errors.Is(failure, http.ErrServerClosed) {
		err = errors.Join(err, failure)
	}
	return memory, stillOpen, err
}

// heapBytes returns this program's heap.
func heapBytes() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}
