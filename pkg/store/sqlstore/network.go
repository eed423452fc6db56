package sqlstore

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// The kernel closes a connection whose peer is gone after about deadPeerTimeout, also while a
// statement runs that has no deadline.
const deadPeerTimeout = 30 * time.Second

// A connSet holds a database's open network connections, so that all can be cut at once: their
// statements then fail at once, and closing them waits for nothing.
type connSet struct {
	mu    sync.Mutex
	conns map[*trackedConn]struct{}
}

// A trackedConn is a connection in a set.
type trackedConn struct {
	net.Conn
	set    *connSet
	opened time.Time
	// awaiting reports that nothing has arrived since the connection was opened, or since bytes were
	// sent.
	awaiting atomic.Bool
	// answered is when bytes were last received, in nanoseconds.
	answered atomic.Int64

	mu      sync.Mutex
	aborted bool
}

// openConn opens a connection in the set. It ends when its peer is gone.
func (s *connSet) openConn(ctx context.Context, network, addr string) (net.Conn, error) {
	d := &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: deadPeerTimeout / 2, Interval: deadPeerTimeout / 6, Count: 3},
		Control:         limitUnacknowledged,
	}
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &trackedConn{Conn: conn, set: s, opened: time.Now()}
	c.awaiting.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns == nil {
		s.conns = map[*trackedConn]struct{}{}
	}
	s.conns[c] = struct{}{}
	return c, nil
}

// cutIdle closes the connections on which no answer is awaited. A new one may be about to send the
// request that ends another's statement, so it is spared.
func (s *connSet) cutIdle() { s.cutConns(func(c *trackedConn) bool { return !c.awaiting.Load() }) }

// cutAll closes all connections.
func (s *connSet) cutAll() { s.cutConns(func(*trackedConn) bool { return true }) }

// areSilent reports whether an answer is awaited on a connection that was opened before a time, and
// that none has received anything since then.
func (s *connSet) areSilent(since time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	awaiting := false
	for c := range s.conns {
		switch {
		case !c.opened.Before(since):
		case c.answered.Load() >= since.UnixNano():
			return false
		case c.awaiting.Load():
			awaiting = true
		}
	}
	return awaiting
}

// lastAnswer returns when bytes were last received on a connection that was opened before a time.
func (s *connSet) lastAnswer(before time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	var last int64
	for c := range s.conns {
		if c.opened.Before(before) {
			last = max(last, c.answered.Load())
		}
	}
	return time.Unix(0, last)
}

func (s *connSet) cutConns(selects func(*trackedConn) bool) {
	s.mu.Lock()
	var cut []*trackedConn
	for c := range s.conns {
		if selects(c) {
			cut = append(cut, c)
			delete(s.conns, c)
		}
	}
	s.mu.Unlock()
	for _, c := range cut {
		if !c.awaiting.Load() {
			_ = c.Conn.Close()
			continue
		}
		// An answer is awaited: end all reads and writes, but leave the connection open until its
		// driver closes it, because a pooler cancels no statement on a closed connection.
		c.mu.Lock()
		c.aborted = true
		_ = c.Conn.SetDeadline(time.Unix(1, 0))
		c.mu.Unlock()
	}
}

// SetDeadline implements [net.Conn].
func (c *trackedConn) SetDeadline(t time.Time) error {
	return c.setUnlessAborted(c.Conn.SetDeadline, t)
}

// SetReadDeadline implements [net.Conn].
func (c *trackedConn) SetReadDeadline(t time.Time) error {
	return c.setUnlessAborted(c.Conn.SetReadDeadline, t)
}

// SetWriteDeadline implements [net.Conn].
func (c *trackedConn) SetWriteDeadline(t time.Time) error {
	return c.setUnlessAborted(c.Conn.SetWriteDeadline, t)
}

// setUnlessAborted sets a deadline, unless the connection was aborted.
func (c *trackedConn) setUnlessAborted(set func(time.Time) error, t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.aborted {
		return nil
	}
	return set(t)
}

// Write implements [net.Conn].
func (c *trackedConn) Write(b []byte) (int, error) {
	c.awaiting.Store(true)
	return c.Conn.Write(b)
}

// Read implements [net.Conn].
func (c *trackedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.awaiting.Store(false)
		c.answered.Store(time.Now().UnixNano())
	}
	return n, err
}

// SyscallConn lets the MySQL driver detect a connection that the server has closed.
func (c *trackedConn) SyscallConn() (syscall.RawConn, error) {
	conn, ok := c.Conn.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return conn.SyscallConn()
}

// Close implements [net.Conn].
func (c *trackedConn) Close() error {
	c.set.mu.Lock()
	delete(c.set.conns, c)
	c.set.mu.Unlock()
	return c.Conn.Close()
}
