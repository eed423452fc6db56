package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"time"

	"agenthost"
	"agenthost/internal/a2acard"
	"agenthost/internal/command"
	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/spec"
	"agenthost/pkg/store"
	connections "agenthost/wing/connection"
	"agenthost/wing/connection/authorize"
	"agenthost/wing/devui"
	"agenthost/wing/operator"
	"agenthost/wing/rollout"
)

// minLease tolerates a short disk or machine pause.
const minLease = time.Second

// serveFlags are the flags for serve.
type serveFlags struct {
	command.StoreFlags
	load command.LoadFlags
	// databaseNotice describes a choice of the default database that may surprise.
	databaseNotice string

	addr          string
	addrGiven     bool
	drain         time.Duration
	poll          time.Duration
	keepAlive     time.Duration
	createSession bool
	demo          bool
	insecure      bool
	allowedHosts  []string

	// config is a file with flags, auth a file with the authentication. authNode and dirs are the
	// authentication and the folders from the config file.
	config, auth string
	authNode     *spec.Node
	dirs         []string
	// knownVariables are the environment variables that set flags.
	knownVariables []string

	runsPerUser, runsPerApp string
	maxRunTime              time.Duration
	maxLive, maxUserLive    int
	maxAnswers              command.SizeFlag
	observe                 observeFlags
	dev                     devFlags
	replayRecordings        string
	// chat selects the apps with a chat page.
	chat   string
	grants authorize.GrantFlags
	// peerGRPC serves A2A over gRPC, too. cardKey is where the key that signs agent cards is.
	peerGRPC bool
	cardKey  string
}

// validateLimits rejects numbers that make no sense.
func (f *serveFlags) validateLimits() error {
	if f.maxLive < 1 || f.maxUserLive < 1 {
		return errors.New("--max-live and --max-live-per-user must be at least 1")
	}
	if f.Lease < minLease {
		return fmt.Errorf("--lease must be at least %s, got %s", minLease, f.Lease)
	}
	if f.chat != chatOfApps && f.chat != chatOfAll && f.chat != chatOff {
		return fmt.Errorf("--chat must be apps, all or off, got %q", f.chat)
	}
	if f.poll < 0 {
		return fmt.Errorf("--poll must be above 0, such as 2s, got %s", f.poll)
	}
	if f.keepAlive < 0 {
		return fmt.Errorf("--keep-alive must be 0 or more, got %s", f.keepAlive)
	}
	return nil
}

// serveMain is a running serve's state.
type serveMain struct {
	// keys encrypt users' tokens; nil without any.
	keys *connections.Keys
	// loader opens apps as the host does.
	loader *loader.Loader
	flags  *serveFlags
	dirs   []string
	env    command.Env
	logger *slog.Logger
	store  *store.Store
	host   *agenthost.Host
	server *server.Server
	// cards signs agent cards; nil without a key.
	cards *a2acard.Signer
	// metrics is the listener for metrics and probes; nil without --metrics-addr.
	metrics net.Listener
	// traces is nil without developer tools.
	traces *devui.Traces
	ui     fs.FS
	// replay is the --replay-recordings replay, or nil.
	replay runtime.Replay
	// problems are the log's last warnings and errors.
	problems operator.LogRing
	// staged runs rollouts; nil with developer tools.
	staged *rollout.Controller
}
