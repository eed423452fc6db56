package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	"agenthost/internal/safe"
)

// demoAddr is the address where --demo serves orders for the example apps tools and support. It
// differs from the host's own address, which apps cannot call.
const demoAddr = "127.0.0.1:8010"

// serveDemo serves the example apps' orders until stop is called. If the address is in use, most
// likely by another host, it logs a warning.
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

// demoOrders serves GET /demo/orders/{id} and POST /demo/orders/{id}/refunds for the example apps
// tools and support, and at /demo an order index. It keeps no refunds.
func demoOrders() http.Handler {
	orders := map[string]demoOrder{
		"1001": {"1001", "shipped", 42.5, []demoItem{{"Tea pot", 1}, {"Cup", 4}}},
		"1002": {"1002", "packing", 18, []demoItem{{"Notebook", 3}}},
		"1003": {"1003", "delivered", 129.9, []demoItem{{"Desk lamp", 1}}},
	}
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, status int, body any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body) // the client has disconnected
	}
	withOrder := func(f func(w http.ResponseWriter, r *http.Request, order demoOrder)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			order, ok := orders[r.PathValue("id")]
			if !ok {
				answer(w, http.StatusNotFound, map[string]string{"detail": "Order not found: " + r.PathValue("id")})
				return
			}
			f(w, r, order)
		}
	}
	index := func(w http.ResponseWriter, _ *http.Request) {
		paths := []string{}
		for _, id := range slices.Sorted(maps.Keys(orders)) {
			paths = append(paths, "GET /demo/orders/"+id)
		}
		answer(w, http.StatusOK, map[string]any{"orders": paths, "refund": "POST /demo/orders/{id}/refunds with amount and reason"})
	}
	for _, path := range []string{"/{$}", "/demo", "/demo/{$}", "/demo/orders", "/demo/orders/{$}"} {
		mux.HandleFunc("GET "+path, index)
	}
	mux.HandleFunc("GET /demo/orders/{id}", withOrder(func(w http.ResponseWriter, _ *http.Request, order demoOrder) {
		answer(w, http.StatusOK, order)
	}))
	mux.HandleFunc("POST /demo/orders/{id}/refunds", withOrder(func(w http.ResponseWriter, r *http.Request, order demoOrder) {
		var refund struct {
			Amount float64 `json:"amount"`
			Reason string  `json:"reason"`
		}
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&refund)
		if err != nil || refund.Amount <= 0 || refund.Amount > order.Total {
			answer(w, http.StatusUnprocessableEntity, map[string]string{"detail": "The amount must be greater than 0, and at most the order's total"})
			return
		}
		answer(w, http.StatusOK, map[string]any{"id": "R-" + order.ID, "order": order.ID, "amount": refund.Amount, "reason": refund.Reason})
	}))
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
