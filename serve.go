package agenthost

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"agenthost/internal/safe"
	"agenthost/pkg/server"
)

// ServeOptions configure [Host.Serve]. The zero value is valid.
type ServeOptions struct {
	// Server serves the requests; nil is the [Host.NewServer] server without options.
	Server *server.Server
	// Handler receives the requests instead of Server, and hands on those that are for it; nil
	// is Server.
	Handler http.Handler
	// Drain is how long running turns may take after ctx has ended. Default: 30 seconds; a
	// negative value ends them at once.
	Drain time.Duration
	// HTTP2 also accepts HTTP/2 without TLS, which clients of gRPC use.
	HTTP2 bool
	// OnDrain, if set, is called when ctx has ended.
	OnDrain func()
}

// NewServer returns the HTTP API of the host, ADK's included, as a handler. App statuses and
// reloads through the API are the host's, whatever the options' Reloader is; nil options are the
// defaults. [Host.Serve] shuts it down; a program that serves it itself calls its Drain and Wait
// before it closes the host.
func (h *Host) NewServer(opts *server.Options) *server.Server {
	opts = withDefault(opts)
	opts.Reloader, opts.Logger = reloader{h.watch}, h.logger
	return server.New(h.Host, opts)
}

// Serve serves the apps at a listener, and deletes sessions past their app's retention, until ctx
// ends. Then new turns are rejected, running ones get Drain's time, and the listener is closed.
// Serve returns nil if they all ended in time.
func (h *Host) Serve(ctx context.Context, listener net.Listener, opts *ServeOptions) error {
	opts = withDefault(opts)
	if opts.Server == nil {
		opts.Server = h.NewServer(nil)
	}
	if opts.Handler == nil {
		opts.Handler = opts.Server
	}
	opts.Drain = max(0, cmp.Or(opts.Drain, 30*time.Second))
	var background sync.WaitGroup
	defer background.Wait()
	pruning, stop := context.WithCancel(ctx)
	defer stop()
	background.Go(func() {
		defer safe.Recover(func(p *safe.Panic) { p.Log(h.logger, "deleting expired sessions panicked") })
		h.pruneRegularly(pruning)
	})
	web := &http.Server{
		Handler: opts.Handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(h.logger.Handler(), slog.LevelWarn),
	}
	if opts.HTTP2 {
		acceptHTTP2(web)
	}
	served := make(chan error, 1)
	go func() {
		defer safe.Recover(func(p *safe.Panic) {
			p.Log(h.logger, "accepting connections panicked")
			served <- errors.New("accepting connections panicked, see the log")
		})
		served <- web.Serve(listener)
	}()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
		if opts.OnDrain != nil {
			opts.OnDrain()
		}
		return opts.shutDown(web)
	}
}

// acceptHTTP2 makes a server accept HTTP/2 without TLS next to HTTP/1. A connection has as many streams as
// a client of HTTP/1 has connections; one that no longer answers is closed.
func acceptHTTP2(web *http.Server) {
	web.Protocols = new(http.Protocols)
	web.Protocols.SetHTTP1(true)
	web.Protocols.SetUnencryptedHTTP2(true)
	web.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: maxStreams, SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second, WriteByteTimeout: 30 * time.Second}
}

// maxStreams is how many requests an HTTP/2 connection has at a time.
const maxStreams = 100

// shutDown rejects new turns, and waits for the running ones.
func (o *ServeOptions) shutDown(web *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), o.Drain)
	defer cancel()
	o.Server.Drain()
	// Shutdown would close the listener first. Keep it open so that new requests get a
	// response to retry later.
	err := o.Server.Wait(ctx)
	if err == nil {
		err = web.Shutdown(ctx)
	}
	if err != nil {
		o.Server.Abort()
		web.Close()
		return fmt.Errorf("turns were still running after %s: %w", o.Drain, err)
	}
	return nil
}
