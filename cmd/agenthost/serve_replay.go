package main

import (
	"context"

	"agenthost/internal/command"
	"agenthost/pkg/runtime"
	"agenthost/wing/adk/conformance"
)

// openReplay opens the replay of --replay-recordings, and returns the runs of the host with
// it; nil without the flag.
func (m *serveMain) openReplay() (func(context.Context, *runtime.RunRequest) runtime.Events, error) {
	folder := m.flags.replayRecordings
	if folder == "" {
		return nil, nil
	}
	if err := command.CheckFolder(folder); err != nil {
		return nil, err
	}
	replayer := &conformance.Replayer{Root: folder}
	m.replay = replayer
	return func(ctx context.Context, req *runtime.RunRequest) runtime.Events {
		return replayer.Run(ctx, m.host.Run, req)
	}, nil
}
