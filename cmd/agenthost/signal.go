package main

import (
	"time"

	"github.com/spf13/cobra"

	"agenthost/internal/command"
)

// cleanupTimeout limits how long a verb may clean up after a signal.
const cleanupTimeout = 2 * time.Second

// stopOnSignal makes every verb in cmd stop on a signal. Most verbs return when their context ends.
// A verb that is blocked, for example on an unreachable disk, does not return, so that the process
// exits after a timeout.
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
			return command.FailWithf("stopped by a signal while waiting for a file or another program")
		}
	}
}
