package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"agenthost/internal/safe"
)

// reloadOnSignal loads changed apps on each SIGHUP, until ctx ends.
func (m *serveMain) reloadOnSignal(ctx context.Context) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	defer signal.Stop(signals)
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals:
		}
		m.logger.Info("reloading", "trigger", "SIGHUP")
		err := error(nil)
		if p := safe.Call(func() { err = m.host.Watch().Reload(ctx) }); p != nil {
			p.Log(m.logger, "reload panicked")
		}
		if err != nil && ctx.Err() == nil {
			m.logger.Error("reload failed", "error", err)
		}
		for _, st := range m.host.Watch().Statuses() {
			if st.Loading {
				m.logger.Warn("app still loading", "app", st.App)
			}
		}
	}
}
