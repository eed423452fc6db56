package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"agenthost"
	"agenthost/internal/a2acard"
	"agenthost/internal/command"
	"agenthost/internal/safe"
	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/spec"
	connections "agenthost/wing/connection"
	"agenthost/wing/devui"
	"agenthost/wing/evaluation/evalrun"
	"agenthost/wing/rollout"
)

const (
	defaultAddr = "127.0.0.1:8000"
	// extraPorts is how many ports to try after the default one.
	extraPorts = 20
)

func newServeCommand(env command.Env) *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve DIR...",
		Short: "Serve apps over HTTP with hot reload",
		Long: `Serve implements ADK's HTTP API for all apps in the folders: DIR is an app or a
folder of apps. Saved files are checked and reloaded, and the next turn uses them; a
file with errors changes nothing. Every flag has an environment variable
(AGENTHOST_SESSION_DB for --session-db) and a key in the file of --config
(session_db). The command line overrides the environment, and both override the
file.`,
		Args:    command.RequireArgs(0, -1),
		PreRunE: command.ApplyEnvironment,
		RunE: func(cmd *cobra.Command, dirs []string) error {
			dirs, err := f.resolveSettings(cmd, dirs)
			if err != nil {
				return err
			}
			f.knownVariables = flagVariables(cmd.Root())
			return serveApps(cmd.Context(), env, &f, dirs)
		},
	}
	f.registerFlags(env, cmd.Flags())
	return cmd
}

// registerFlags adds the flags to a command's.
func (f *serveFlags) registerFlags(env command.Env, flags *pflag.FlagSet) {
	f.StoreFlags.RegisterFlags(env, flags)
	f.RegisterLimits(flags)
	f.load.RegisterFlags(env, flags)
	flags.StringVar(&f.addr, "addr", defaultAddr, "address to listen on; if the default port is in use, serve uses the next free one")
	flags.DurationVar(&f.drain, "drain", 30*time.Second, "grace period for running turns after a signal")
	flags.DurationVar(&f.poll, "poll", 0, "poll for changes at this interval instead of using file notifications (default: notifications, and polling every 2s)")
	flags.DurationVar(&f.Lease, "lease", 15*time.Second, "session lease duration; after a crash other replicas take over a session once it expires")
	flags.BoolVar(&f.createSession, "auto-create-session", false, "create missing sessions on first use")
	flags.BoolVar(&f.demo, "demo", false, "also serve orders at http://"+demoAddr+"/demo, for the example apps tools and support")
	flags.BoolVar(&f.insecure, "insecure", false, "allow listening on a non-loopback address without authentication")
	flags.StringVar(&f.config, "config", "", "file with these flags as keys, with _ instead of -, and with dirs: and auth:")
	flags.StringVar(&f.auth, "auth", "", "file that configures authentication by tokens or JWTs (default: no authentication)")
	flags.StringSliceVar(&f.allowedHosts, "allowed-hosts", nil, "allowed Host headers, with or without a port (default: loopback names; any host if --auth or --insecure allows a non-loopback address)")
	flags.StringVar(&f.runsPerUser, "runs-per-user", "", "rate limit for runs per user, such as 60/1m (default: no limit)")
	flags.IntVar(&f.maxLive, "max-live", 10000, "maximum number of open live conversations")
	flags.IntVar(&f.maxUserLive, "max-live-per-user", 20, "maximum number of open live conversations per user")
	flags.DurationVar(&f.maxRunTime, "max-run-time", 0, "maximum duration of a turn (default: no limit)")
	flags.IntVar(&f.load.MaxLLMCalls, "max-llm-calls", runtime.DefaultMaxLLMCalls, "maximum number of model calls per invocation in apps whose run_config has no max_llm_calls; 0 means no limit; overrides ADK_MAX_LLM_CALLS")
	flags.StringVar(&f.runsPerApp, "runs-per-app", "", "rate limit for runs per app, such as 600/1m (default: no limit)")
	flags.DurationVar(&f.keepAlive, "keep-alive", 0, "send a comment on event streams that are idle for this duration, for proxies that close idle connections (default: 15s, only for clients that request event IDs)")
	flags.StringVar(&f.chat, "chat", chatOfApps, "serve a chat page for end users at /chat/APP: apps for the apps whose app.yaml has chat, all, or off; with --dev on a loopback address apps means all")
	flags.BoolVar(&f.peerGRPC, "a2a-grpc", false, "serve A2A over gRPC, too: --addr then also accepts HTTP/2 without TLS")
	flags.StringVar(&f.cardKey, "a2a-card-key", "", "file with the private key that signs agent cards, or env:NAME for a variable: P-256, P-384, Ed25519 or RSA in PEM")
	flags.StringVar(&f.replayRecordings, "replay-recordings", "", "folder with conformance cases; runs whose state delta has _adk_replay_config replay them instead of calling models (default: off)")
	f.maxAnswers = 256 << 20
	flags.Var(&f.maxAnswers, "max-answers", "memory limit for large responses that clients have not read yet; a quarter of it per user")
	f.dev.registerFlags(flags)
	f.observe.registerFlags(flags)
	f.grants.RegisterFlags(flags)
}

func serveApps(ctx context.Context, env command.Env, f *serveFlags, dirs []string) error {
	if err := f.validateLimits(); err != nil {
		return err
	}
	logger, err := f.observe.newLogger(env)
	if err != nil {
		return err
	}
	limitMemory(logger)
	relaxCollector()
	m := &serveMain{flags: f, dirs: dirs, env: env}
	logger = slog.New(m.problems.WrapHandler(logger.Handler()))
	m.logger = logger
	// Redirect the standard logger, which libraries use, to the host's log.
	log.SetOutput(slog.NewLogLogger(m.logger.Handler(), slog.LevelDebug).Writer())
	opts, err := f.serverOptions()
	if err != nil {
		return err
	}
	defer opts.Auth.Close()
	if err := command.CheckFolders(dirs); err != nil {
		return err
	}
	var closeUI func() error
	if m.ui, closeUI, err = f.dev.openBundle(); err != nil {
		return err
	}
	defer closeUI()
	load, keys, err := m.loadOptions()
	if err != nil {
		return err
	}
	if f.observe.traceContents && f.observe.otlp == "" {
		logger.Warn("--trace-contents has no effect without --otlp")
	}
	warnUnknownVariables(logger, f.knownVariables, f.load.Reserved.Variables)
	listener, err := m.openListener(ctx)
	if err != nil {
		return command.FailWith(err)
	}
	defer listener.Close()
	endMetrics, err := m.openMetrics(ctx)
	if err != nil {
		return command.FailWith(err)
	}
	defer endMetrics()
	f.reserveListeners(load, listener, m.metrics)
	defer f.serveDemo(ctx, m.logger)()
	if err := m.openStore(ctx); err != nil {
		return err
	}
	defer m.store.Close()
	grants := m.openGrants(keys, listener.Addr())
	opts.Metrics = server.NewMetrics(buildVersion())
	if f.dev.isEnabled() {
		m.traces = devui.NewTraces(true)
	}
	tracing, flush, err := f.observe.newTracing(ctx, m.logger, m.traces)
	if err != nil {
		return err
	}
	defer flush()
	load.MissingKey = m.logMissingKeys()
	if f.dev.isEnabled() {
		load.WrapModel = evalrun.WrapModel
	}
	if opts.Run, err = m.openReplay(); err != nil {
		return err
	}
	err = m.openHost(ctx, load, &runtime.Options{
		Replay: m.replay, Consents: grants, Observe: opts.Metrics.Observe,
		TracerProvider: tracing, TraceContents: f.dev.isEnabled() || f.observe.traceContents && f.observe.otlp != "",
	})
	if err != nil {
		return command.FailWith(err)
	}
	m.server = m.host.NewServer(m.addExtensions(opts, grants))
	m.serveMetrics()
	return m.serveUntilDone(ctx, listener)
}

// logMissingKeys returns a function that logs each model without a key once, not at each
// reload. It is safe for concurrent use.
func (m *serveMain) logMissingKeys() func(app string, use loader.ModelUse, d spec.Diagnostic) {
	var logged sync.Map
	return func(app string, use loader.ModelUse, d spec.Diagnostic) {
		if _, ok := logged.LoadOrStore(app+"\x00"+use.Name, true); !ok {
			m.logger.Warn("model without a key", "app", app, "model", use.Name, "agents", use.Agents, "missing", use.Credential.Missing, "at", d.Pos.String())
		}
	}
}

// loadOptions returns the loader options, and the keys for users' tokens, which apps may not read.
func (m *serveMain) loadOptions() (*loader.Options, *connections.Keys, error) {
	keys, err := m.flags.grants.ReadKeys(&m.flags.load.Reserved, m.flags.SessionDB)
	if err != nil {
		return nil, nil, err
	}
	m.keys = keys
	if m.cards, err = m.flags.readCardKey(); err != nil {
		return nil, nil, err
	}
	load, err := m.flags.load.LoaderOptions(&loader.Options{Logger: m.logger}, m.dirs...)
	return load, keys, err
}

// readCardKey returns the signer for agent cards, whose key apps may not read; nil without a key.
func (f *serveFlags) readCardKey() (*a2acard.Signer, error) {
	if f.cardKey == "" {
		return nil, nil
	}
	text, err := command.ReadKey("--a2a-card-key", f.cardKey, &f.load.Reserved)
	if err != nil {
		return nil, err
	}
	signer, err := a2acard.NewSigner([]byte(text))
	if err != nil {
		return nil, command.FailWithf("--a2a-card-key: %w", err)
	}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "-----") {
			f.load.Reserved.Values = append(f.load.Reserved.Values, strings.TrimSpace(line))
		}
	}
	return signer, nil
}

// openStore opens the store, and reports defaults that may surprise.
func (m *serveMain) openStore(ctx context.Context) (err error) {
	if m.flags.databaseNotice != "" {
		m.flags.observe.printNotice(m.env, m.logger, m.flags.databaseNotice)
	}
	if m.store, err = m.flags.OpenStore(ctx, m.logger); err != nil {
		return err
	}
	if folder := m.flags.LocalArtifacts(); folder != "" {
		m.logger.Warn("artifacts are stored on this machine, where replicas on others do not find them; set --artifacts", "folder", folder)
	}
	return nil
}

// openGrants opens the users' grants in the store, for app connections. at is where the host listens.
func (m *serveMain) openGrants(keys *connections.Keys, at net.Addr) *connections.Grants {
	if !m.flags.load.Reserved.Shared && len(m.flags.allowedHosts) == 0 { // other names come from a proxy
		m.flags.grants.LocalURL = "http://" + at.String()
	}
	grants := m.flags.grants.NewGrants(m.store.Grants, keys, m.logger)
	m.env.Kinds.Connections = connections.NewKind(grants)
	return grants
}

// openListener listens on the address. If the default port is in use, it tries the
// following ports.
func (m *serveMain) openListener(ctx context.Context) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", m.flags.addr)
	if err == nil || !errors.Is(err, syscall.EADDRINUSE) {
		return l, err
	}
	inUse := fmt.Errorf("%s is already in use: choose another --addr", m.flags.addr)
	if m.flags.addrGiven {
		return nil, inUse
	}
	for port := 8001; port < 8001+extraPorts; port++ {
		if l, err := lc.Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			m.flags.observe.printNotice(m.env, m.logger, fmt.Sprintf("%s is already in use, serving at %s", m.flags.addr, l.Addr()))
			return l, nil
		}
	}
	return nil, inUse
}

// serveUntilDone serves until ctx ends, then drains running turns and closes the host.
func (m *serveMain) serveUntilDone(ctx context.Context, listener net.Listener) error {
	watching, stopWatching := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	tasks.Go(func() {
		defer safe.Recover(func(p *safe.Panic) { p.Log(m.logger, "reloading on signals panicked") })
		m.reloadOnSignal(watching)
	})
	tasks.Go(func() {
		defer safe.Recover(func(p *safe.Panic) { p.Log(m.logger, "rollouts panicked") })
		if m.staged != nil {
			m.staged.Run(watching)
		}
	})
	m.printGreeting("http://" + localAddress(listener.Addr().String()))
	drain := m.flags.drain
	if drain == 0 {
		drain = -1 // 0 is Serve's default
	}
	err := m.host.Serve(ctx, listener, &agenthost.ServeOptions{
		Server: m.server, Handler: m.flags.observe.withProfiler(m.server, m.server.Protect), Drain: drain, HTTP2: m.flags.peerGRPC,
		OnDrain: func() {
			m.flags.observe.printNotice(m.env, m.logger, "shutting down: waiting for running turns, a second signal stops immediately")
		},
	})
	stopWatching()
	tasks.Wait()
	return command.FailWith(errors.Join(err, m.host.Close()))
}

// printGreeting prints the apps, the address, and a request to try.
func (m *serveMain) printGreeting(url string) {
	// Write once, so that a reader that waits for the greeting gets all of it.
	out := new(bytes.Buffer)
	defer func() { _, _ = out.WriteTo(m.env.Out) }()
	fmt.Fprintf(out, "agenthost serves at %s\nOpen %s/ in a browser to talk to the apps; %s/docs documents the API.\nSessions are in %s.\n", url, url, url, m.flags.DescribeDatabase())
	if m.metrics != nil {
		fmt.Fprintf(out, "Metrics are at http://%s/metrics.\n", localAddress(m.metrics.Addr().String()))
	}
	out.WriteByte('\n')
	example := ""
	for _, s := range m.host.Watch().Statuses() {
		state := m.host.App(s.App)
		if state == nil && s.Loading {
			fmt.Fprintf(out, "  %-12s is still loading\n", s.App)
			continue
		}
		if state == nil {
			fmt.Fprintf(out, "  %-12s has problems: run agenthost check %s\n", s.App, s.Dir)
			continue
		}
		if example == "" || s.App == "hello" {
			example = s.App
		}
		about, _, _ := strings.Cut(state.Description(), "\n")
		fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf("  %-12s %s", s.App, about), " "))
	}
	if len(m.host.Watch().Statuses()) == 0 {
		m.printEmptyGreeting(out)
	}
	if example != "" {
		out.WriteString(m.exampleRequest(url, example))
	}
}

// localAddress returns the address at which a program on this machine reaches a listener: the
// loopback address if it listens on all addresses.
func localAddress(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err == nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return addr
}

// exampleRequest returns curl commands for a first turn. With authentication, they use
// the caller's token and user ID.
func (m *serveMain) exampleRequest(url, app string) string {
	title, header, user, body := "Try it:", "", "user", `"userId":"user",`
	if m.flags.auth != "" || m.flags.authNode != nil {
		title, header, user, body = "Try it, with a token in TOKEN and its user in USER_ID:", ` -H "Authorization: Bearer $TOKEN"`, "$USER_ID", ""
	}
	text := "\n" + title + "\n\n"
	if !m.flags.createSession {
		text += fmt.Sprintf("  curl -s -X POST%s %s/apps/%s/users/%s/sessions/first\n", header, url, app, user)
	}
	return text + fmt.Sprintf("  curl -sN%s %s/run_sse -H 'Content-Type: application/json' -d '{\"appName\":%q,%s\"sessionId\":\"first\",\"streaming\":true,\"newMessage\":{\"parts\":[{\"text\":\"Hello\"}]}}'\n", header, url, app, body)
}

// reserveListeners adds the host's own addresses to the loader's policy, so that apps cannot call
// the host. A listener may be nil.
func (f *serveFlags) reserveListeners(opts *loader.Options, listeners ...net.Listener) {
	host := f.load.Reserved
	host.Names = f.allowedHosts
	for _, l := range listeners {
		if l == nil {
			continue
		}
		if own, err := netip.ParseAddrPort(l.Addr().String()); err == nil {
			host.Listeners = append(host.Listeners, own)
		}
	}
	opts.Policy = opts.Policy.For(host)
}

// openHost loads the apps. Changes of apps with rollout reach new sessions step by step; with developer
// tools they serve at once, since a saved file is to change the next answer.
func (m *serveMain) openHost(ctx context.Context, load *loader.Options, run *runtime.Options) (err error) {
	f := m.flags
	problems, report := f.observe.problemReporter(m.env, m.logger)
	m.loader = m.env.NewLoader(load)
	watch := &loader.WatchOptions{OnLoad: report, Poll: f.poll, PollOnly: f.poll > 0}
	if !f.dev.isEnabled() {
		m.staged = rollout.NewController(&rollout.Options{
			Rollouts: m.store.Rollouts, Outcomes: m.store.Outcomes, Owner: m.store.Sessions.Owner(), Clock: time.Now, Logger: m.logger,
		})
		watch.Admit, run.Split, run.SplitFailed = m.staged.Admit, m.staged.Split, m.staged.RecordFailure
	}
	m.host, err = agenthost.Open(ctx, &agenthost.Options{
		Folders: m.dirs, Kinds: m.env.Kinds, Store: m.store, Problems: problems, Logger: m.logger, Load: load, Run: run, Watch: watch,
	})
	if err == nil && m.staged != nil {
		watch := m.host.Watch()
		m.staged.Attach(&rollout.Host{Serving: m.host.App, Reconsider: watch.Reconsider, Report: watch.AppendReport, Reports: func() []loader.Report {
			all, _ := watch.Reports(0)
			return all
		}})
	}
	return err
}
