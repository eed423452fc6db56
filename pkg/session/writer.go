package session

import "fmt"

// A Writer is a role that writes state. A role may write everything that a
// lower role may write.
type Writer int

// The writers, from the least trusted one on.
const (
	// WriterClient is a client of the server, authenticated or not.
	WriterClient Writer = iota
	// WriterAgent is an agent of the app, with its tools and callbacks.
	WriterAgent
	// WriterAdmin is an administrator, or the operator at the command line.
	WriterAdmin
)

// WriterNames returns the names of the roles in YAML, in order.
func WriterNames() []string { return []string{"client", "agent", "admin"} }

// String returns the name.
func (w Writer) String() string {
	if names := WriterNames(); w >= 0 && int(w) < len(names) {
		return names[w]
	}
	return fmt.Sprintf("Writer(%d)", int(w))
}

// ParseWriter returns the role with a name.
func ParseWriter(name string) (Writer, bool) {
	for i, known := range WriterNames() {
		if name == known {
			return Writer(i), true
		}
	}
	return 0, false
}
