package tool

import (
	"bytes"
	"sync"
)

// stderrTail keeps the end of what a program writes to its standard error. Many
// goroutines may use it.
type stderrTail struct {
	mu   sync.Mutex
	text []byte
}

// maxStderrBytes is how much is kept.
const maxStderrBytes = 4 << 10

// Write implements [io.Writer], and never fails.
func (w *stderrTail) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, p...)
	if over := len(w.text) - maxStderrBytes; over > 0 {
		w.text = append([]byte(nil), w.text[over:]...)
	}
	return len(p), nil
}

// lastLine is the last line that says something.
func (w *stderrTail) lastLine() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := bytes.TrimSpace(w.text)
	return string(bytes.TrimSpace(text[bytes.LastIndexByte(text, '\n')+1:]))
}
