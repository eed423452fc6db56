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
	headTime = 10 * time.Second
	bodyTime = time.Minute
	// afterwards is how much later the end may come.
	afterwards = 5 * time.Second
)

// trickle opens connections that say a byte now and then, and counts those that
// are not closed in time. Bodies take a minute, and are tried in the long form.
func (g *siege) trickle(ctx context.Context) int {
	type slow struct {
		head string
		time time.Duration
	}
	all := []slow{
		{"", headTime}, {"GET /health HTTP/1.1\r\nHost: ", headTime}, {"POST /run HTTP/1.1\r\nHost: x\r\nX-A: ", headTime},
	}
	if g.site.full {
		for _, target := range []string{"POST /run", "GET /health", "GET /nowhere", "POST /builder/save", "DELETE /apps/prey/users/mallory/sessions/prey-1"} {
			all = append(all, slow{target + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 1000000\r\n\r\n", bodyTime})
		}
	}
	var kept atomic.Int64
	_ = together(len(all)*g.site.of(5, 20), func(i int) error {
		s := all[i%len(all)]
		if !closedWithin(ctx, g.addr(), s.head, s.time+afterwards) {
			kept.Add(1)
		}
		return nil
	})
	return int(kept.Load())
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
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for b := make([]byte, 512); ; {
			if _, err := conn.Read(b); err != nil {
				return
			}
		}
	}()
	defer func() { conn.Close(); <-ended }()
	next := time.NewTicker(200 * time.Millisecond)
	defer next.Stop()
	late := time.NewTimer(limit)
	defer late.Stop()
	for {
		select {
		case <-next.C:
			_, _ = conn.Write([]byte("x"))
		case <-ended:
			return true
		case <-late.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}
