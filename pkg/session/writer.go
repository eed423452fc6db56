package session

import "fmt"

// A Writer is a party that writes state. A higher one may write what a lower
// one may.
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

// WriterNames are the names of the writers in documents, in their order.
func WriterNames() []string { return []string{"client", "agent", "admin"} }

// String is the name.
func (w Writer) String() string {
	if names := WriterNames(); w >= 0 && int(w) < len(names) {
		return names[w]
	}
	return fmt.Sprintf("Writer(%d)", int(w))
}

// ParseWriter returns the writer of a name.
func ParseWriter(name string) (Writer, bool) {
	for i, known := range WriterNames() {
		if name == known {
			return Writer(i), true
		}
	}
	return 0, false
}
