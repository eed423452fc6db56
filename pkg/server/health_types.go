package server

type healthBody struct {
	Status string `json:"status"`
}

type readyBody struct {
	Ready   bool     `json:"ready"`
	Reasons []string `json:"reasons"`
}
