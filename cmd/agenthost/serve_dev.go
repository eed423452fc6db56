package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/pflag"

	"agenthost/internal/command"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/wing/a2aserver"
	"agenthost/wing/adk/conformance"
	"agenthost/wing/aguiserver"
	"agenthost/wing/apptest/testweb"
	"agenthost/wing/chatpage"
	connections "agenthost/wing/connection"
	"agenthost/wing/devui"
	"agenthost/wing/evaluation/evalrun"
	"agenthost/wing/evaluation/evalweb"
	"agenthost/wing/live/liveweb"
	"agenthost/wing/mcpserver"
	"agenthost/wing/openaiserver"
	"agenthost/wing/operator"
	"agenthost/wing/replay"
	"agenthost/wing/revisions"
	"agenthost/wing/why"
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
	reasons := &why.Options{Loader: m.loader, Folders: ui.Folders, Rollout: describeRollouts(m.store), Dev: ui.Dev}
	stored := &revisions.Options{Loader: m.loader, Folders: ui.Folders}
	played := &replay.Options{Loader: m.loader, Folders: ui.Folders}
	tests := &testweb.Options{Loader: m.loader, Folders: ui.Folders, Dev: ui.Dev}
	opts.Extensions = serverExtensions(extensionOptions{talks, ui, evals, reasons, tests, grants, m.flags.chatOptions(), stored, played, m.flags.mcpOptions(), m.flags.openaiOptions(), m.flags.aguiOptions(), m.peerOptions(), &operator.Options{Log: &m.problems}, m.staged})
	return opts
}

// chatOptions returns for which apps the chat page is served. With developer tools on a loopback
// address these are all apps, so that an author sees the page before app.yaml has chat.
func (f *serveFlags) chatOptions() *chatpage.Options {
	return &chatpage.Options{All: f.chat == chatOfAll || f.chat == chatOfApps && f.isTrial(), Off: f.chat == chatOff}
}

// isTrial reports whether the host serves its author only: with developer tools on a loopback address.
func (f *serveFlags) isTrial() bool {
	reachable, err := f.isReachable()
	return f.dev.isEnabled() && err == nil && !reachable
}

// mcpOptions returns which apps are MCP servers, as in chatOptions.
func (f *serveFlags) mcpOptions() *mcpserver.Options {
	return &mcpserver.Options{All: f.isTrial()}
}

// openaiOptions returns for which apps OpenAI's API is served, as in chatOptions.
func (f *serveFlags) openaiOptions() *openaiserver.Options {
	return &openaiserver.Options{All: f.isTrial()}
}

// peerOptions returns for which apps A2A is served, as in chatOptions.
func (m *serveMain) peerOptions() *a2aserver.Options {
	opts := &a2aserver.Options{All: m.flags.isTrial(), GRPC: m.flags.peerGRPC, Cards: m.cards}
	if m.keys != nil {
		opts.Keys = m.keys
	}
	return opts
}

// aguiOptions returns for which apps AG-UI is served, as in chatOptions.
func (f *serveFlags) aguiOptions() *aguiserver.Options {
	return &aguiserver.Options{All: f.isTrial()}
}

// The values of --chat.
const (
	chatOfApps = "apps"
	chatOfAll  = "all"
	chatOff    = "off"
)

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
