package command

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"agenthost/internal/safe"
)

// An Interrupter handles interrupts (^C): one during an answer in a conversation stops the answer,
// each other one stops the command.
type Interrupter struct {
	stopVerb context.CancelFunc

	mu         sync.Mutex
	stopAnswer context.CancelCauseFunc // nil while no answer can be stopped
}

// WatchInterrupts handles the process's interrupts, and its termination, until the returned context ends, which
// is when one stops the command. Another signal then ends the process immediately.
func WatchInterrupts(ctx context.Context) (context.Context, *Interrupter) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	stop := func() {
		signal.Stop(signals) // first: no signal after the context's end may be lost
		cancel()
	}
	i := &Interrupter{stopVerb: stop}
	go func() {
		defer safe.Recover(func(*safe.Panic) { stop() })
		for {
			select {
			case s := <-signals:
				if s == os.Interrupt {
					i.handleInterrupt()
				} else {
					stop()
				}
			case <-ctx.Done():
				signal.Stop(signals)
				return
			}
		}
	}()
	return ctx, i
}

// Interrupt handles an interrupt that does not come as a signal. It accepts a nil Interrupter.
func (i *Interrupter) Interrupt() {
	if i != nil {
		i.handleInterrupt()
	}
}

// handleInterrupt handles an interrupt.
func (i *Interrupter) handleInterrupt() {
	i.mu.Lock()
	stopAnswer := i.stopAnswer
	i.stopAnswer = nil
	i.mu.Unlock()
	if stopAnswer == nil {
		i.stopVerb()
		return
	}
	stopAnswer(ErrAnswerStopped)
}

// ErrAnswerStopped is the cause when an interrupt stopped an answer.
var ErrAnswerStopped = errors.New("answer stopped: ^C or ^D now ends the conversation")

// IsAnswerStopped reports whether an interrupt has stopped ctx's answer.
func IsAnswerStopped(ctx context.Context) bool {
	return errors.Is(context.Cause(ctx), ErrAnswerStopped)
}

// WithStop returns an answer's context, which an interrupt cancels with the cause
// [ErrAnswerStopped]. The caller calls end after the answer.
func (i *Interrupter) WithStop(ctx context.Context) (answer context.Context, end func()) {
	answer, cancel := context.WithCancelCause(ctx)
	i.SetStopAnswer(cancel)
	return answer, func() {
		i.SetStopAnswer(nil)
		cancel(nil)
	}
}

// SetStopAnswer sets what the next interrupt calls instead of stopping the command; nil sets
// nothing. It accepts a nil Interrupter.
func (i *Interrupter) SetStopAnswer(stop context.CancelCauseFunc) {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stopAnswer = stop
}
