package server

import "net/http"

// DemoOrders serves GET /demo/orders/{id} for the example app tools. It is not a route
// of a [Server], because apps may not call the host that serves them.
func DemoOrders() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /demo/orders/{id}", func(w http.ResponseWriter, r *http.Request) {
		if err := writeDemoOrder(w, r.PathValue("id")); err != nil {
			writeDetail(w, http.StatusNotFound, err.Error())
		}
	})
	return mux
}

// A demoOrder is an order that the example app tools looks up over HTTP.
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

func demoOrders() []demoOrder {
	return []demoOrder{
		{"1001", "shipped", 42.5, []demoItem{{"Tea pot", 1}, {"Cup", 4}}},
		{"1002", "packing", 18, []demoItem{{"Notebook", 3}}},
		{"1003", "delivered", 129.9, []demoItem{{"Desk lamp", 1}}},
	}
}

func writeDemoOrder(w http.ResponseWriter, id string) error {
	for _, o := range demoOrders() {
		if o.ID == id {
			return writeJSON(w, o)
		}
	}
	return notFoundError("Order not found: " + id)
}
