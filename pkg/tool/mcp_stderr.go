package tool

import (
	"bytes"
	"sync"
)

// A stderrTail keeps the end of a program's standard error. It is safe for
// concurrent use.
type stderrTail struct {
	mu   sync.Mutex
	text []byte
}

// maxStderrBytes is how much output is kept.
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

// lastLine returns the last non-empty line.
func (w *stderrTail) lastLine() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := bytes.TrimSpace(w.text)
	return string(bytes.TrimSpace(text[bytes.LastIndexByte(text, '\n')+1:]))
}
