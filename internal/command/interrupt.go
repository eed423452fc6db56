package command

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"

	"agenthost/internal/safe"
)

// An Interrupter handles interrupts (^C): one during an answer in a conversation stops the answer,
// each other one stops the command.
type Interrupter struct {
	stopVerb context.CancelFunc

	mu         sync.Mutex
	stopAnswer context.CancelCauseFunc // nil while no answer can be stopped
}

// WatchInterrupts handles the process's interrupts until the returned context ends, which is when
// one stops the command. Another one then ends the process immediately.
func WatchInterrupts(ctx context.Context) (context.Context, *Interrupter) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt)
	i := &Interrupter{stopVerb: cancel}
	go func() {
		defer safe.Recover(func(*safe.Panic) { cancel() })
		defer signal.Stop(signals)
		for {
			select {
			case <-signals:
				i.handleInterrupt()
			case <-ctx.Done():
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
