package main

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestDemoOrders(t *testing.T) {
	const index = `200 {"orders":["GET /demo/orders/1001","GET /demo/orders/1002","GET /demo/orders/1003"],"refund":"POST /demo/orders/{id}/refunds with amount and reason"}`
	for path, want := range map[string]string{
		"/demo/orders/1001": `200 {"id":"1001","status":"shipped","total":42.5,"items":[{"name":"Tea pot","quantity":1},{"name":"Cup","quantity":4}]}`,
		"/demo":             index,
		"/demo/":            index,
		"/demo/orders":      index,
		"/":                 index,
		"/demo/orders/7":    `404 {"detail":"Order not found: 7"}`,
	} {
		w := httptest.NewRecorder()
		demoOrders().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if got := fmt.Sprint(w.Code, " ", strings.TrimSpace(w.Body.String())); got != want {
			t.Errorf("GET %s = %s, want %s", path, got, want)
		}
	}
	const limit = `422 {"detail":"The amount must be greater than 0, and at most the order's total"}`
	for body, want := range map[string]string{
		`{"amount": 42.5, "reason": "broken"}`: `200 {"amount":42.5,"id":"R-1001","order":"1001","reason":"broken"}`,
		`{"amount": 43}`:                       limit,
		`{"amount": 0}`:                        limit,
		`{`:                                    limit,
	} {
		w := httptest.NewRecorder()
		demoOrders().ServeHTTP(w, httptest.NewRequest("POST", "/demo/orders/1001/refunds", strings.NewReader(body)))
		if got := fmt.Sprint(w.Code, " ", strings.TrimSpace(w.Body.String())); got != want {
			t.Errorf("POST %s = %s, want %s", body, got, want)
		}
	}
}
