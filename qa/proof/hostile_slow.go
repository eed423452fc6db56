package main

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"
)

// A host's timeouts for a request's head and body.
const (
	headTimeout = 10 * time.Second
	bodyTimeout = time.Minute
	// closeSlack is how much later the host may close the connection.
	closeSlack = 5 * time.Second
)

// countSlowClientsKept opens connections that send single bytes and counts those that
// the host does not close in time. Only the full form sends bodies, which takes a
// minute.
func (g *attackProof) countSlowClientsKept(ctx context.Context) int {
	type slow struct {
		head string
		time time.Duration
	}
	all := []slow{
		{"", headTimeout}, {"GET /health HTTP/1.1\r\nHost: ", headTimeout}, {"POST /run HTTP/1.1\r\nHost: x\r\nX-A: ", headTimeout},
	}
	if g.site.full {
		for _, target := range []string{"POST /run", "GET /health", "GET /no-such-path", "POST /builder/save", "DELETE /apps/victim/users/mallory/sessions/victim-1"} {
			all = append(all, slow{target + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 1000000\r\n\r\n", bodyTimeout})
		}
	}
	var open atomic.Int64
	_ = runConcurrently(len(all)*g.site.choose(5, 20), func(i int) error {
		s := all[i%len(all)]
		if !closedWithin(ctx, g.hostAddr(), s.head, s.time+closeSlack) {
			open.Add(1)
		}
		return nil
	})
	return int(open.Load())
}

// closedWithin reports whether the host closes a connection that receives single bytes
// within the limit.
func closedWithin(ctx context.Context, addr, head string, limit time.Duration) bool {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	fmt.Fprint(conn, head)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		for b := make([]byte, 512); ; {
			if _, err := conn.Read(b); err != nil {
				return
			}
		}
	}()
	defer func() { conn.Close(); <-closed }()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for {
		select {
		case <-ticker.C:
			_, _ = conn.Write([]byte("x"))
		case <-closed:
			return true
		case <-deadline.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}
