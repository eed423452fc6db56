package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"

	"agenthost/internal/command"
	"agenthost/pkg/runtime"
	"agenthost/wing/adk/conformance"

	"github.com/spf13/pflag"

	"agenthost/pkg/server"
	connections "agenthost/wing/connection"
	"agenthost/wing/devui"
	"agenthost/wing/evaluation/evalrun"
	"agenthost/wing/evaluation/evalweb"
	"agenthost/wing/live/liveweb"
)

// devFlags are serve's developer flags.
type devFlags struct {
	dev bool
	ui  string
}

func (f *devFlags) registerFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&f.dev, "dev", false, "enable developer tools: keep traces with model requests, let the visual builder and the Eval tab write app files, and run eval sets")
	flags.StringVar(&f.ui, "ui-dir", "", "serve the ADK Web bundle in this folder at /dev-ui/; implies --dev")
}

// openBundle opens the bundle; nil if there is none. Links must stay inside the folder.
func (f *devFlags) openBundle() (fs.FS, func() error, error) {
	if f.ui == "" {
		return nil, func() error { return nil }, nil
	}
	root, err := os.OpenRoot(f.ui)
	if err != nil {
		return nil, nil, fmt.Errorf("--ui-dir %s: folder not found", f.ui)
	}
	if _, err := root.Stat("index.html"); err != nil {
		root.Close()
		return nil, nil, fmt.Errorf("--ui-dir %s has no index.html: use the folder dist/browser of an ADK Web build", f.ui)
	}
	return root.FS(), root.Close, nil
}

// isEnabled reports whether developer tools are enabled.
func (f *devFlags) isEnabled() bool { return f.dev || f.ui != "" }

// addExtensions adds the server extensions with their options.
func (m *serveMain) addExtensions(opts *server.Options, grants *connections.Grants) *server.Options {
	talks := &liveweb.Options{MaxSockets: m.flags.maxLive, MaxUserSockets: m.flags.maxUserLive}
	ui := &devui.Options{UI: m.ui, Traces: m.traces, Folders: m.host.Watch(), Dev: m.flags.dev.isEnabled()}
	evals := &evalweb.Options{Folders: m.host.Watch(), Dev: ui.Dev}
	if ui.Dev {
		evals.Evaluator = &evalrun.HostRunner{Host: m.host.Host, Apps: m.host.Watch(), Logger: m.logger}
	}
	opts.Extensions = serverExtensions(talks, ui, evals, grants)
	return opts
}

// openReplay opens the --replay-recordings replay, and returns the host's runs with it; nil without
// the flag.
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
