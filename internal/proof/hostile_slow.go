package main

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"
)

// What a host gives a client for the head of a request, and for its body.
const (
	headTimeout = 10 * time.Second
	bodyTimeout = time.Minute
	// closeSlack is how much later the end may come.
	closeSlack = 5 * time.Second
)

// countSlowClientsKept opens connections that say a byte now and then, and counts those that
// are not closed in time. Bodies take a minute, and are tried in the long form.
func (g *attackProof) countSlowClientsKept(ctx context.Context) int {
	type slow struct {
		head string
		time time.Duration
	}
	all := []slow{
		{"", headTimeout}, {"GET /health HTTP/1.1\r\nHost: ", headTimeout}, {"POST /run HTTP/1.1\r\nHost: x\r\nX-A: ", headTimeout},
	}
	if g.site.full {
		for _, target := range []string{"POST /run", "GET /health", "GET /nowhere", "POST /builder/save", "DELETE /apps/prey/users/mallory/sessions/prey-1"} {
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

// closedWithin says whether a connection is closed in time, upon which one byte
// comes after the other.
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
