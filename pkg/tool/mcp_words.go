package tool

import (
	"bytes"
	"sync"
)

// lastWords keeps the end of what a program writes to its standard error. Many
// goroutines may use it.
type lastWords struct {
	mu   sync.Mutex
	text []byte
}

// maxWords is how much is kept.
const maxWords = 4 << 10

// Write implements [io.Writer], and never fails.
func (w *lastWords) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, p...)
	if over := len(w.text) - maxWords; over > 0 {
		w.text = append([]byte(nil), w.text[over:]...)
	}
	return len(p), nil
}

// line is the last line that says something.
func (w *lastWords) line() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := bytes.TrimSpace(w.text)
	return string(bytes.TrimSpace(text[bytes.LastIndexByte(text, '\n')+1:]))
}
