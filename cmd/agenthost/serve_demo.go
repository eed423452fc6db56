package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"time"

	"agenthost/internal/safe"
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
	web := &http.Server{Handler: demoOrders(), ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second}
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

// demoOrders serves GET /demo/orders/{id} for the example app tools.
func demoOrders() http.Handler {
	orders := map[string]demoOrder{
		"1001": {"1001", "shipped", 42.5, []demoItem{{"Tea pot", 1}, {"Cup", 4}}},
		"1002": {"1002", "packing", 18, []demoItem{{"Notebook", 3}}},
		"1003": {"1003", "delivered", 129.9, []demoItem{{"Desk lamp", 1}}},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /demo/orders/{id}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var answer any = map[string]string{"detail": "Order not found: " + r.PathValue("id")}
		if order, ok := orders[r.PathValue("id")]; ok {
			answer = order
		} else {
			w.WriteHeader(http.StatusNotFound)
		}
		_ = json.NewEncoder(w).Encode(answer) // the client has disconnected
	})
	return mux
}

type demoOrder struct {
	ID     string     `json:"id"`
	Status string     `json:"status"`
	Total  float64    `json:"total"`
	Items  []demoItem `json:"items"`
}

type demoItem struct {
	Name     string `json:"name"`
	Quantity int    `json:"quantity"`
}
