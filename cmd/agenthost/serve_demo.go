package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"agenthost/internal/safe"
	"agenthost/pkg/server"
)

// demoAddr is the address of the orders that --demo serves for the example app tools. It
// differs from the host's own address, which apps cannot call.
const demoAddr = "127.0.0.1:8010"

// serveDemo serves the orders of the example app until stop is called. If the address is
// in use, most likely by another host, it logs a warning.
func (f *serveFlags) serveDemo(ctx context.Context, logger *slog.Logger) (stop func()) {
	if !f.demo {
		return func() {}
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", demoAddr)
	if err != nil {
		logger.Warn("cannot serve the demo orders", "addr", demoAddr, "error", err)
		return func() {}
	}
	web := &http.Server{Handler: server.DemoOrders(), ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer safe.Recover(func(p *safe.Panic) { p.Log(logger, "serving the demo orders panicked") })
		_ = web.Serve(l) // returns when the server is closed
	}()
	return func() {
		web.Close()
		<-done
	}
}
