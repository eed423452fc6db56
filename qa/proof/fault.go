package main

import (
	"errors"
	"io"
	"net"
	"net/url"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
)

// A faultInjector makes an open store's database unavailable, and available again.
type faultInjector interface {
	// url is the database URL for the store.
	url() string
	startFault() error
	endFault() error
	// close ends the fault and releases resources.
	close() error
}

// newFaultInjector returns a failing network for a server and a full disk for a file.
func newFaultInjector(s *sandbox) (faultInjector, error) {
	if s.file != "" {
		return &fullDisk{at: s.url}, nil
	}
	return newFaultyProxy(s.database)
}

// fullDiskSize is the file size at which writes fail.
const fullDiskSize = 64 << 10

// A fullDisk makes writes fail for this process only, by RLIMIT_FSIZE, so that other
// processes are not affected.
type fullDisk struct {
	at     string
	before syscall.Rlimit
}

func (f *fullDisk) url() string { return f.at }

func (f *fullDisk) startFault() error {
	// A full disk returns an error and sends no signal.
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &f.before); err != nil {
		return err
	}
	return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: fullDiskSize, Max: f.before.Max})
}

func (f *fullDisk) endFault() error { return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &f.before) }

func (f *fullDisk) close() error { return nil }

// A faultyProxy forwards TCP connections to a server.
type faultyProxy struct {
	at, server string
	listener   net.Listener
	done       sync.WaitGroup

	// swallows reports that bytes are discarded, on connections that stay open.
	swallows atomic.Bool

	mu    sync.Mutex
	down  bool
	conns map[net.Conn]bool
}

// A swallowingConn discards what is written to it while its proxy swallows, and from then on.
type swallowingConn struct {
	net.Conn
	proxy *faultyProxy
	dead  *atomic.Bool
}

// Write implements [net.Conn].
func (c swallowingConn) Write(b []byte) (int, error) {
	if c.proxy.swallows.Load() {
		c.dead.Store(true)
	}
	if c.dead.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func newFaultyProxy(d *database) (*faultyProxy, error) {
	u, err := url.Parse(d.url)
	if err != nil {
		return nil, err
	}
	l := &faultyProxy{server: u.Host, conns: map[net.Conn]bool{}}
	if l.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	u.Host = l.listener.Addr().String()
	l.at = u.String()
	l.done.Go(l.acceptConns)
	return l, nil
}

func (l *faultyProxy) url() string { return l.at }

func (l *faultyProxy) acceptConns() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.done.Go(func() { l.forwardConn(client) })
	}
}

// forwardConn copies data in both directions until one side closes or the fault starts.
func (l *faultyProxy) forwardConn(client net.Conn) {
	defer client.Close()
	if !l.trackConn(client) {
		return
	}
	defer l.untrackConn(client)
	server, err := net.Dial("tcp", l.server)
	if err != nil {
		return
	}
	defer server.Close()
	if !l.trackConn(server) {
		return
	}
	defer l.untrackConn(server)
	back, dead := make(chan struct{}), &atomic.Bool{}
	go func() {
		defer close(back)
		_, _ = io.Copy(swallowingConn{client, l, dead}, server)
		client.Close()
	}()
	_, _ = io.Copy(swallowingConn{server, l, dead}, client)
	server.Close()
	<-back
}

// trackConn registers a connection. It returns false during a fault.
func (l *faultyProxy) trackConn(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.down {
		l.conns[c] = true
	}
	return !l.down
}

func (l *faultyProxy) untrackConn(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// startFault closes every connection. New connections are closed immediately.
func (l *faultyProxy) startFault() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	for c := range l.conns {
		c.Close()
	}
	return nil
}

func (l *faultyProxy) endFault() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = false
	return nil
}

func (l *faultyProxy) close() error {
	err := errors.Join(l.listener.Close(), l.startFault())
	l.done.Wait()
	return err
}
