package main

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// A roundRobin hands each request to the next of its hosts, whatever it is
// about and whether the host lives: it knows no session and looks after nobody.
type roundRobin struct {
	url    string
	server *http.Server
	done   sync.WaitGroup
	hosts  []atomic.Pointer[url.URL]
	next   atomic.Uint64
}

func newRoundRobin(hosts int) (*roundRobin, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &roundRobin{url: "http://" + listener.Addr().String(), hosts: make([]atomic.Pointer[url.URL], hosts)}
	quiet := log.New(io.Discard, "", 0) // hosts that are gone are what is tried
	proxy := &httputil.ReverseProxy{
		Rewrite: func(q *httputil.ProxyRequest) {
			q.SetURL(r.hosts[r.next.Add(1)%uint64(len(r.hosts))].Load())
		},
		Transport:     &http.Transport{MaxIdleConnsPerHost: 256},
		FlushInterval: -1, // each frame at once
		ErrorLog:      quiet,
	}
	r.server = &http.Server{Handler: proxy, ErrorLog: quiet, ReadHeaderTimeout: patience}
	r.done.Go(func() { _ = r.server.Serve(listener) })
	return r, nil
}

// lead makes a host the i-th one.
func (r *roundRobin) lead(i int, to string) error {
	at, err := url.Parse(to)
	if err == nil {
		r.hosts[i].Store(at)
	}
	return err
}

func (r *roundRobin) close() error {
	err := r.server.Close()
	r.done.Wait()
	return err
}

// A fleet is some hosts on one database, behind a round-robin.
type fleet struct {
	lab   *lab
	store string // its URL
	apps  string
	flags []string
	hosts []*host
	robin *roundRobin
	kills int
}

// newFleet starts all hosts at once, so that one of them makes the tables and
// the others wait for it.
func newFleet(ctx context.Context, f *fleet, hosts int) (*fleet, error) {
	var err error
	if f.robin, err = newRoundRobin(hosts); err != nil {
		return nil, err
	}
	f.hosts = make([]*host, hosts)
	if err := together(hosts, func(i int) error { return f.start(ctx, i) }); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

func (f *fleet) start(ctx context.Context, i int) (err error) {
	if f.hosts[i], err = serveAt(ctx, f.lab, f.store, f.apps, f.flags...); err != nil {
		return err
	}
	return f.robin.lead(i, f.hosts[i].url)
}

// disturb kills one of the hosts again and again, and starts it anew, until
// quit is closed.
func (f *fleet) disturb(ctx context.Context, every time.Duration, choose func(n int) int, quit <-chan struct{}) error {
	again := time.NewTicker(every)
	defer again.Stop()
	for {
		select {
		case <-again.C:
		case <-quit:
			return nil
		}
		i := choose(len(f.hosts))
		if err := f.hosts[i].kill(); err != nil {
			return err
		}
		f.kills++
		if err := f.start(ctx, i); err != nil {
			return err
		}
	}
}

// close kills what still runs.
func (f *fleet) close() error {
	var errs []error
	for _, h := range f.hosts {
		if h != nil {
			errs = append(errs, h.kill())
		}
	}
	return errors.Join(append(errs, f.robin.close())...)
}
