package main

import (
	"time"

	"github.com/spf13/cobra"
)

// cleanupTimeout is how long a verb has after a signal to put away what it holds.
const cleanupTimeout = 2 * time.Second

// stopOnSignal has every verb below cmd end with a signal. A verb that hears of it
// ends by itself; one that waits for a file on a disk that is away never does, and is
// ended with the process.
func stopOnSignal(cmd *cobra.Command) {
	for _, verb := range cmd.Commands() {
		stopOnSignal(verb)
	}
	work := cmd.RunE
	if work == nil {
		return
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		done := make(chan error, 1)
		go func() { done <- work(cmd, args) }()
		select {
		case err := <-done:
			return err
		case <-cmd.Context().Done():
		}
		allowed := cleanupTimeout
		if drain, err := cmd.Flags().GetDuration("drain"); err == nil {
			allowed += drain + flushTimeout // turns under way may end, and be told of
		}
		select {
		case err := <-done:
			return err
		case <-time.After(allowed):
			return failWithf("stopped by a signal while waiting for a file or another program")
		}
	}
}
