package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"agenthost/internal/safe"
)

// openMetrics listens on --metrics-addr, if it is set. The function ends serveMetrics: probes are answered while
// turns end after a signal.
func (m *serveMain) openMetrics(ctx context.Context) (end func(), err error) {
	at := m.flags.observe.metricsAddr
	if at == "" {
		return func() {}, nil
	}
	if m.metrics, err = new(net.ListenConfig).Listen(ctx, "tcp", at); err != nil {
		return nil, fmt.Errorf("--metrics-addr: %w", err)
	}
	return func() { m.metrics.Close() }, nil
}

// serveMetrics serves metrics and probes until their listener is closed.
func (m *serveMain) serveMetrics() {
	if m.metrics == nil {
		return
	}
	web := &http.Server{
		Handler: m.server.NewProbeHandler(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(m.logger.Handler(), slog.LevelWarn),
	}
	go func() {
		defer safe.Recover(func(p *safe.Panic) { p.Log(m.logger, "serving metrics panicked") })
		if err := web.Serve(m.metrics); !errors.Is(err, net.ErrClosed) {
			m.logger.Error("metrics are no longer served", "error", err)
		}
		web.Close()
	}()
}
