// Package safe contains panics. A goroutine that panics without recovering crashes the
// whole process. Therefore each goroutine of the product begins with
//
//	defer safe.Recover(func(p *safe.Panic) { … })
//
// where the function reports the panic to the code that waits for the goroutine.
// internal/house tests that no goroutine omits it.
package safe

import (
	"fmt"
	"log/slog"
	"runtime/debug"
)

// A Panic is a recovered panic.
type Panic struct {
	Value any
	// Stack is the stack of the goroutine that panicked.
	Stack string
}

// Error returns the panic value. It is for logs, not for clients.
func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// Log reports the panic with its stack.
func (p *Panic) Log(logger *slog.Logger, message string, args ...any) {
	logger.Error(message, append(args, "panic", p.Value, "stack", p.Stack)...)
}

// Recover is deferred. It recovers a panic and passes it to report. Without a panic it
// does nothing.
func Recover(report func(*Panic)) {
	if v := recover(); v != nil {
		report(&Panic{Value: v, Stack: string(debug.Stack())})
	}
}

// Call calls f and returns its panic, or nil.
func Call(f func()) (p *Panic) {
	defer Recover(func(recovered *Panic) { p = recovered })
	f()
	return nil
}
