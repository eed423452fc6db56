package server

import "net/http"

// A demoOrder is what the example app tools looks up over HTTP.
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

func (s *Server) handleDemoOrder(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	for _, o := range demoOrders() {
		if o.ID == id {
			return writeJSON(w, o)
		}
	}
	return missingError("Order not found: " + id)
}
