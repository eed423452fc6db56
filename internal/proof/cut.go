package main

import (
	"errors"
	"io"
	"net"
	"net/url"
	"os/signal"
	"sync"
	"syscall"
)

// A cut takes a database away from a store that is open, and gives it back.
type cut interface {
	// url is where the store finds the database.
	url() string
	begin() error
	end() error
	// close ends the cut for good.
	close() error
}

// newCut is a network that fails for a server, and a disk that takes nothing
// more for a file.
func newCut(s *site) (cut, error) {
	if s.file != "" {
		return &fullDisk{at: s.url}, nil
	}
	return newLine(s.database)
}

// fullEnough is the size beyond which no file can be written.
const fullEnough = 64 << 10

// A fullDisk makes writes to files fail, those of this whole process: the file
// system is not asked to be full, which would disturb others.
type fullDisk struct {
	at     string
	before syscall.Rlimit
}

func (f *fullDisk) url() string { return f.at }

func (f *fullDisk) begin() error {
	// What a disk answers is an error, not a signal.
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &f.before); err != nil {
		return err
	}
	return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: fullEnough, Max: f.before.Max})
}

func (f *fullDisk) end() error { return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &f.before) }

func (f *fullDisk) close() error { return nil }

// A line leads to a server, over a port of its own.
type line struct {
	at, server string
	listener   net.Listener
	done       sync.WaitGroup

	mu    sync.Mutex
	down  bool
	conns map[net.Conn]bool
}

func newLine(d *database) (*line, error) {
	u, err := url.Parse(d.url)
	if err != nil {
		return nil, err
	}
	l := &line{server: u.Host, conns: map[net.Conn]bool{}}
	if l.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	u.Host = l.listener.Addr().String()
	l.at = u.String()
	l.done.Go(l.accept)
	return l, nil
}

func (l *line) url() string { return l.at }

func (l *line) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.done.Go(func() { l.carry(client) })
	}
}

// carry connects a client with the server until one of them has enough, or the
// line is cut.
func (l *line) carry(client net.Conn) {
	defer client.Close()
	if !l.keep(client) {
		return
	}
	defer l.forget(client)
	server, err := net.Dial("tcp", l.server)
	if err != nil {
		return
	}
	defer server.Close()
	if !l.keep(server) {
		return
	}
	defer l.forget(server)
	back := make(chan struct{})
	go func() {
		defer close(back)
		_, _ = io.Copy(client, server)
		client.Close()
	}()
	_, _ = io.Copy(server, client)
	server.Close()
	<-back
}

// keep remembers a connection, unless the line is down.
func (l *line) keep(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.down {
		l.conns[c] = true
	}
	return !l.down
}

func (l *line) forget(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// begin cuts every connection; new ones are closed at once.
func (l *line) begin() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	for c := range l.conns {
		c.Close()
	}
	return nil
}

func (l *line) end() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = false
	return nil
}

func (l *line) close() error {
	err := errors.Join(l.listener.Close(), l.begin())
	l.done.Wait()
	return err
}
