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

// A roundRobin is a reverse proxy that sends each request to the next host, without
// session affinity or health checks.
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
	discardLog := log.New(io.Discard, "", 0) // unavailable hosts are part of the proof
	proxy := &httputil.ReverseProxy{
		Rewrite: func(req *httputil.ProxyRequest) {
			req.SetURL(r.hosts[r.next.Add(1)%uint64(len(r.hosts))].Load())
		},
		Transport:     &http.Transport{MaxIdleConnsPerHost: 256},
		FlushInterval: -1, // flush each frame immediately
		ErrorLog:      discardLog,
	}
	r.server = &http.Server{Handler: proxy, ErrorLog: discardLog, ReadHeaderTimeout: waitLimit}
	r.done.Go(func() { _ = r.server.Serve(listener) })
	return r, nil
}

// setHost sets the i-th host's URL.
func (r *roundRobin) setHost(i int, hostURL string) error {
	target, err := url.Parse(hostURL)
	if err == nil {
		r.hosts[i].Store(target)
	}
	return err
}

func (r *roundRobin) close() error {
	err := r.server.Close()
	r.done.Wait()
	return err
}

// A fleet has several hosts on one database behind a round-robin proxy.
type fleet struct {
	lab   *lab
	store string // URL
	apps  string
	flags []string
	hosts []*host
	proxy *roundRobin
	kills int
}

// newFleet starts all hosts concurrently, so that one creates the tables while the others wait.
func newFleet(ctx context.Context, f *fleet, hosts int) (*fleet, error) {
	var err error
	if f.proxy, err = newRoundRobin(hosts); err != nil {
		return nil, err
	}
	f.hosts = make([]*host, hosts)
	if err := runConcurrently(hosts, func(i int) error { return f.startHost(ctx, i) }); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

func (f *fleet) startHost(ctx context.Context, i int) (err error) {
	if f.hosts[i], err = serveStore(ctx, f.lab, f.store, f.apps, f.flags...); err != nil {
		return err
	}
	return f.proxy.setHost(i, f.hosts[i].url)
}

// killPeriodically kills and restarts one host at each interval until quit is closed.
func (f *fleet) killPeriodically(ctx context.Context, interval time.Duration, choose func(n int) int, quit <-chan struct{}) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-quit:
			return nil
		}
		i := choose(len(f.hosts))
		if err := f.hosts[i].kill(); err != nil {
			return err
		}
		f.kills++
		if err := f.startHost(ctx, i); err != nil {
			return err
		}
	}
}

// close kills the running hosts and stops the proxy.
func (f *fleet) close() error {
	var errs []error
	for _, h := range f.hosts {
		if h != nil {
			errs = append(errs, h.kill())
		}
	}
	return errors.Join(append(errs, f.proxy.close())...)
}
