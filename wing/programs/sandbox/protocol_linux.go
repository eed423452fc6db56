//go:build amd64 || arm64

package sandbox

// status is the helper's report.
type status struct {
	Error          string `json:"error,omitempty"`
	Exit           int    `json:"exit"`
	MemoryExceeded bool   `json:"memory_exceeded,omitempty"`
}

const (
	// confineCommand is the second helper's argument.
	confineCommand = "confine"
	helperFailed   = 125
	// The descriptors that both helpers inherit.
	ordersFD, reportFD = 3, 4
)
