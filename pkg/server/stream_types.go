package server

type errorFrame struct {
	Error     any    `json:"error"`
	ErrorCode string `json:"errorCode"`
	Author    string `json:"author,omitempty"`
}
