package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"agenthost/internal/safe"
)

// cleanupTimeout limits how long a verb may clean up after a signal.
const cleanupTimeout = 2 * time.Second

// stopOnSignal makes every verb of cmd stop on a signal. Most verbs return when their
// context ends. A verb that is blocked, for example on an unreachable disk, does not
// return, so that the process exits after a timeout.
func stopOnSignal(cmd *cobra.Command) {
	for _, verb := range cmd.Commands() {
		stopOnSignal(verb)
	}
	runVerb := cmd.RunE
	if runVerb == nil {
		return
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		done := make(chan error, 1)
		go func() { done <- runVerb(cmd, args) }()
		select {
		case err := <-done:
			return err
		case <-cmd.Context().Done():
		}
		timeout := cleanupTimeout
		if drain, err := cmd.Flags().GetDuration("drain"); err == nil {
			timeout += drain + flushTimeout // drain running turns and flush their traces
		}
		select {
		case err := <-done:
			return err
		case <-time.After(timeout):
			return failWithf("stopped by a signal while waiting for a file or another program")
		}
	}
}

// errAnswerStopped is the cause of an answer that an interrupt stopped.
var errAnswerStopped = errors.New("answer stopped: ^C or ^D now ends the conversation")

// An interrupter handles interrupts (^C): one during an answer of a conversation stops the
// answer, each other one stops the verb.
type interrupter struct {
	stopVerb context.CancelFunc

	mu         sync.Mutex
	stopAnswer context.CancelCauseFunc // nil while no answer can be stopped
}

// watchInterrupts handles the interrupts of the process until the returned context ends,
// which is when one stops the verb. Another one then ends the process immediately.
func watchInterrupts(ctx context.Context) (context.Context, *interrupter) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt)
	i := &interrupter{stopVerb: cancel}
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

// handleInterrupt handles an interrupt.
func (i *interrupter) handleInterrupt() {
	i.mu.Lock()
	stopAnswer := i.stopAnswer
	i.stopAnswer = nil
	i.mu.Unlock()
	if stopAnswer == nil {
		i.stopVerb()
		return
	}
	stopAnswer(errAnswerStopped)
}

// withStop returns the context of an answer, which an interrupt cancels with the cause
// [errAnswerStopped]. The caller calls end after the answer.
func (i *interrupter) withStop(ctx context.Context) (answer context.Context, end func()) {
	answer, cancel := context.WithCancelCause(ctx)
	i.setStopAnswer(cancel)
	return answer, func() {
		i.setStopAnswer(nil)
		cancel(nil)
	}
}

func (i *interrupter) setStopAnswer(stop context.CancelCauseFunc) {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stopAnswer = stop
}

// isAnswerStopped reports whether an interrupt has stopped the answer of ctx.
func isAnswerStopped(ctx context.Context) bool {
	return errors.Is(context.Cause(ctx), errAnswerStopped)
}
