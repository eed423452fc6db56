package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// frameTime is a frame's duration in milliseconds.
const frameTime = 40

// A load is what many clients do: each sends an audio frame every 40 ms, and receives one for each.
type load struct {
	side     string
	sessions int
	// warm is how long the clients send before the measurement, lasts how long it takes.
	warm, lasts time.Duration
	// silent clients send nothing during the measurement, and one frame after it, which must be
	// answered.
	silent bool
}

// An outcome is what a load has measured.
type outcome struct {
	sent, received int64
	cpu, wall      time.Duration
	// memory is the server's resident memory at the end, base that before the first client.
	memory, base int64
	// took are the sorted times between sending a frame and receiving its answer: forwarding
	// in both directions, and the fake.
	took []time.Duration
}

// cpuPerFrame returns the processor time for forwarding a frame and its answer.
func (o *outcome) cpuPerFrame() time.Duration { return o.cpu / time.Duration(max(o.received, 1)) }

// perSession returns a session's memory.
func (o *outcome) perSession(sessions int) int64 { return (o.memory - o.base) / int64(sessions) }

// quantile returns a quantile from sorted times.
func quantile(times []time.Duration, share float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	return times[min(int(share*float64(len(times))), len(times)-1)]
}

// clientFrame is a request with 40 ms of audio at 16 kHz, in the side's form.
func clientFrame(side string) []byte {
	audio := base64.StdEncoding.EncodeToString(make([]byte, 16000*2*frameTime/1000))
	if side == relayName {
		return []byte(`{"realtimeInput":{"mediaChunks":[{"mimeType":"audio/pcm;rate=16000","data":"` + audio + `"}]}}`)
	}
	return []byte(`{"blob":{"mime_type":"audio/pcm;rate=16000","data":"` + audio + `"}}`)
}

// runLoad opens the sockets, sends, and measures the server process.
func (l *load) runLoad(ctx context.Context, p *process) (*outcome, error) {
	o := &outcome{}
	before, err := p.readUsage()
	if err != nil {
		return nil, err
	}
	o.base = before.Memory
	clients, err := l.openClients(ctx, p.addr)
	closeAll := func() {
		for _, c := range clients {
			if c != nil {
				_ = c.conn.Close()
			}
		}
	}
	defer closeAll()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	for _, c := range clients {
		running.Go(func() { c.receiveFrames(ctx) })
	}
	if !l.silent {
		running.Go(func() { sendFrames(ctx, clients, false) })
	}
	measured := l.measureWindow(ctx, p, clients, o)
	if l.silent && measured == nil {
		measured = l.checkAnswers(ctx, clients)
	}
	cancel()
	closeAll()
	running.Wait()
	for _, c := range clients {
		if c.err != nil && measured == nil {
			measured = fmt.Errorf("a socket of %s ended: %w", l.side, c.err)
		}
		o.took = append(o.took, c.took...)
	}
	slices.Sort(o.took)
	return o, measured
}

// checkAnswers sends a frame from each client, and waits until all are answered.
func (l *load) checkAnswers(ctx context.Context, clients []*client) error {
	sendFrames(ctx, clients, true)
	const limit = 30 * time.Second
	for began := time.Now(); ; {
		_, received := countFrames(clients)
		switch {
		case received == int64(len(clients)):
			return nil
		case time.Since(began) > limit:
			return fmt.Errorf("%s answered %d of %d idle sockets", l.side, received, len(clients))
		}
		if err := waitFor(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

// measureWindow measures from the end of the warm-up to the end of the load.
func (l *load) measureWindow(ctx context.Context, p *process, clients []*client, o *outcome) error {
	if err := waitFor(ctx, l.warm); err != nil {
		return err
	}
	start, err := p.readUsage()
	if err != nil {
		return err
	}
	began := time.Now()
	for _, c := range clients {
		c.measures.Store(true)
	}
	sent, received := countFrames(clients)
	if err := waitFor(ctx, l.lasts); err != nil {
		return err
	}
	for _, c := range clients {
		c.measures.Store(false)
	}
	end, err := p.readUsage()
	o.wall, o.cpu, o.memory = time.Since(began), end.CPU-start.CPU, end.Memory
	o.sent, o.received = countFrames(clients)
	o.sent, o.received = o.sent-sent, o.received-received
	return err
}

func countFrames(clients []*client) (sent, received int64) {
	for _, c := range clients {
		sent += c.sent.Load()
		received += c.received.Load()
	}
	return sent, received
}

// openers open sockets concurrently.
const openers = 16

func (l *load) openClients(ctx context.Context, addr string) ([]*client, error) {
	clients, errs := make([]*client, l.sessions), make([]error, openers)
	var wg sync.WaitGroup
	for m := range openers {
		wg.Go(func() {
			for i := m; i < l.sessions && errs[m] == nil; i += openers {
				clients[i], errs[m] = openClient(ctx, l.side, addr, fmt.Sprintf("s%d", i))
			}
		})
	}
	wg.Wait()
	return clients, errors.Join(errs...)
}

// A client is a session's socket.
type client struct {
	conn net.Conn
	in   *frameReader
	// frame is the frame that it sends.
	frame []byte
	// times are when the frames without an answer were sent.
	times    chan time.Time
	measures atomic.Bool

	sent, received atomic.Int64
	took           []time.Duration
	err            error
}

func openClient(ctx context.Context, side, addr, id string) (*client, error) {
	if side != relayName {
		if err := createSession(ctx, addr, id); err != nil {
			return nil, err
		}
	}
	conn, in, err := dialSocket(addr, livePath(side, id))
	if err != nil {
		return nil, err
	}
	c := &client{
		conn: conn, in: &frameReader{Reader: in, mark: []byte("inlineData")}, times: make(chan time.Time, 1000),
		frame: encodeFrame(opText, clientFrame(side), true),
	}
	if side != relayName {
		return c, nil
	}
	if _, err = conn.Write(encodeFrame(opText, []byte(`{"setup":{}}`), true)); err == nil {
		_, _, _, err = c.in.next()
	}
	return c, err
}

func createSession(ctx context.Context, addr, id string) error {
	url := "http://" + addr + "/apps/" + app + "/users/" + id + "/sessions/" + id
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("creating session %s: %s", id, resp.Status)
	}
	return nil
}

// paceTick is how often frames are due.
const paceTick = time.Millisecond

// sendFrames sends a frame from each client every 40 ms, or one from each, until ctx ends. The
// clients begin one after the other.
func sendFrames(ctx context.Context, clients []*client, once bool) {
	pace := time.NewTicker(paceTick)
	defer pace.Stop()
	began, done := time.Now(), 0
	for ctx.Err() == nil {
		due := int(time.Since(began) * time.Duration(len(clients)) / (frameTime * time.Millisecond))
		for ; done < due; done++ {
			if once && done == len(clients) {
				return
			}
			clients[done%len(clients)].sendFrame()
		}
		select {
		case <-pace.C:
		case <-ctx.Done():
		}
	}
}

func (c *client) sendFrame() {
	select {
	case c.times <- time.Now():
	default:
		return // the server does not answer
	}
	if _, err := c.conn.Write(c.frame); err == nil {
		c.sent.Add(1)
	}
}

// receiveFrames receives answers until the connection ends.
func (c *client) receiveFrames(ctx context.Context) {
	for {
		op, marked, payload, err := c.in.next()
		if err == nil && op == opPing {
			_, err = c.conn.Write(encodeFrame(opPong, payload, true))
		}
		if err != nil {
			if ctx.Err() == nil {
				c.err = err
			}
			return
		}
		if !marked {
			continue
		}
		took := time.Since(<-c.times)
		c.received.Add(1)
		if c.measures.Load() {
			c.took = append(c.took, took)
		}
	}
}

func waitFor(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
