package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"agenthost/internal/pace"
	"agenthost/internal/safe"
	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/spec"
	"agenthost/pkg/store"
)

const (
	defaultAddr = "127.0.0.1:8000"
	// extraPorts is how many further ports are tried when the default one is taken.
	extraPorts = 20
	// minLease leaves room for a disk or a machine that is slow for a moment.
	minLease = time.Second
)

// serveFlags are those of serve.
type serveFlags struct {
	storeFlags
	load          loadFlags
	addr          string
	addrGiven     bool
	drain         time.Duration
	poll          time.Duration
	keepAlive     time.Duration
	createSession bool
	demo          bool
	insecure      bool
	allowedHosts  []string

	// config is a file with flags, auth one with callers; authNode and dirs are
	// what the config file says of callers and folders.
	config, auth string
	authNode     *spec.Node
	dirs         []string
	// knownVariables are the variables that set flags.
	knownVariables []string

	runsPerUser, runsPerApp string
	maxRunTime              time.Duration
	maxAnswers              sizeFlag
	observe                 observeFlags
	dev                     devFlags
}

func newServe(io stdio) *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve DIR...",
		Short: "Serve apps over HTTP, and take in changes as files are saved",
		Long: `Serve answers ADK's requests for every app of the folders: DIR is an app or a
folder of apps. A saved file is checked and, when nothing is wrong with it, is
what the next turn runs; a broken one changes nothing. Every flag has a
variable, --session-db is AGENTHOST_SESSION_DB, and a key in the file of --config,
session_db; the command line counts before the environment, and both before the
file.`,
		Args:    requireArgs(0, -1),
		PreRunE: applyEnvironment,
		RunE: func(cmd *cobra.Command, dirs []string) error {
			dirs, err := f.resolveSettings(cmd, dirs)
			if err != nil {
				return err
			}
			f.knownVariables = flagVariables(cmd.Root())
			return serveApps(cmd.Context(), io, &f, dirs)
		},
	}
	flags := cmd.Flags()
	f.registerFlags(flags)
	f.registerLimits(flags)
	f.load.registerFlags(flags)
	flags.StringVar(&f.addr, "addr", defaultAddr, "the address to listen on; the next free port when the default one is taken")
	flags.DurationVar(&f.drain, "drain", 30*time.Second, "how long running turns may take to end after a signal")
	flags.DurationVar(&f.poll, "poll", 0, "look for changes this often, and do not rely on the system to tell of them (default: it tells, and every 2s)")
	flags.DurationVar(&f.lease, "lease", 15*time.Second, "how long other processes on the database leave a session to this one when it dies in the middle of a turn")
	flags.BoolVar(&f.createSession, "auto-create-session", false, "make sessions that a run names and nobody made")
	flags.BoolVar(&f.demo, "demo", false, "also answer GET /demo/orders/{id} at http://"+demoAddr+", for the example app tools")
	flags.BoolVar(&f.insecure, "insecure", false, "allow an address that is not of this machine only, though nobody is asked who they are")
	flags.StringVar(&f.config, "config", "", "a file with these flags, by their names with _ for -, with dirs: and auth:")
	flags.StringVar(&f.auth, "auth", "", "the file that says who may call, by tokens or JWTs (default: nobody is asked who they are)")
	flags.StringSliceVar(&f.allowedHosts, "allowed-hosts", nil, "the Host headers that are answered, with a port or for any (default: those of this machine; all, where --auth or --insecure allows an address that others can reach)")
	flags.StringVar(&f.runsPerUser, "runs-per-user", "", "how many runs a user may begin, such as 60/1m (default: no bound)")
	flags.DurationVar(&f.maxRunTime, "max-run-time", 0, "end turns that take longer (default: no bound)")
	flags.StringVar(&f.runsPerApp, "runs-per-app", "", "how many runs an app may begin, such as 600/1m (default: no bound)")
	flags.DurationVar(&f.keepAlive, "keep-alive", 0, "send a comment on event streams after this silence, for proxies that close idle connections (default: only to clients that ask for event ids, after 15s)")
	f.maxAnswers = 256 << 20
	flags.Var(&f.maxAnswers, "max-answers", "limit of the large answers that clients have yet to read, a quarter of it for one user")
	f.dev.registerFlags(flags)
	f.observe.registerFlags(flags)
	return cmd
}

// serveMain is all that serve holds while it runs.
type serveMain struct {
	flags  *serveFlags
	dirs   []string
	io     stdio
	logger *slog.Logger
	store  *store.Store
	host   *runtime.Host
	watch  *loader.Watch
	server *server.Server
	traces *server.Traces
	ui     fs.FS
}

func serveApps(ctx context.Context, io stdio, f *serveFlags, dirs []string) error {
	if f.lease < minLease {
		return fmt.Errorf("--lease %s: write %s or more", f.lease, minLease)
	}
	if f.poll < 0 {
		return fmt.Errorf("--poll %s: write a time above 0, such as 2s", f.poll)
	}
	if f.keepAlive < 0 {
		return fmt.Errorf("--keep-alive must be 0 or more, got %s", f.keepAlive)
	}
	logger, err := f.observe.newLogger(io)
	if err != nil {
		return err
	}
	m := &serveMain{flags: f, dirs: dirs, io: io, logger: logger}
	// Libraries that log by themselves must not write over the host's output.
	log.SetOutput(slog.NewLogLogger(m.logger.Handler(), slog.LevelDebug).Writer())
	opts, err := f.serverOptions()
	if err != nil {
		return err
	}
	defer opts.Auth.Close()
	opts.Logger, opts.Version, opts.MaxRunTime, opts.KeepAlive = m.logger, buildVersion(), f.maxRunTime, f.keepAlive
	opts.MaxResponseBytes = int64(f.maxAnswers)
	if err := checkFolders(dirs); err != nil {
		return err
	}
	var closeUI func() error
	if m.ui, closeUI, err = f.dev.openBundle(); err != nil {
		return err
	}
	defer closeUI()
	load, err := f.load.loaderOptions(&loader.Options{Logger: m.logger}, dirs...)
	if err != nil {
		return err
	}
	warnUnknownVariables(logger, f.knownVariables, f.load.reserved.Variables)
	listener, err := m.openListener(ctx)
	if err != nil {
		return failWith(err)
	}
	defer listener.Close()
	f.reserveListener(load, listener.Addr())
	defer f.serveDemo(ctx, m.logger)()
	if m.store, err = f.openStore(ctx, m.logger); err != nil {
		return err
	}
	defer m.store.Close()
	opts.Metrics = server.NewMetrics(buildVersion())
	m.traces = server.NewTraces(f.dev.isEnabled())
	observe, finish, err := f.observe.newObserver(ctx, m.logger, opts.Metrics.Observe, m.traces.Observe)
	if err != nil {
		return err
	}
	defer finish()
	m.host = runtime.NewHost(m.store, &runtime.Options{Logger: m.logger, LoadRevision: m.buildRevision, Observe: observe})
	defer m.host.Close()
	problems, report := f.observe.problemReporter(io, m.logger)
	m.watch = loader.NewWatch(loader.New(load), m.host, dirs, &loader.WatchOptions{
		Logger: m.logger, Problems: problems, OnLoad: report, Revisions: m.store.Revisions, Poll: f.poll, PollOnly: f.poll > 0,
	})
	if err := m.watch.Sync(ctx); err != nil {
		return failWith(err)
	}
	opts.Reloader, opts.AutoCreateSession = watchReloader{m.watch}, f.createSession
	m.server = server.New(m.host, m.devOptions(opts))
	return m.serveUntilDone(ctx, listener)
}

func checkFolders(dirs []string) error {
	for _, dir := range dirs {
		if err := checkFolder(dir); err != nil {
			return err
		}
	}
	return nil
}

// openListener takes the address. When it is the default one and taken, the next
// free port is.
func (m *serveMain) openListener(ctx context.Context) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", m.flags.addr)
	if err == nil || !errors.Is(err, syscall.EADDRINUSE) {
		return l, err
	}
	taken := fmt.Errorf("%s is taken by another process: choose another --addr", m.flags.addr)
	if m.flags.addrGiven {
		return nil, taken
	}
	for port := 8001; port < 8001+extraPorts; port++ {
		if l, err := lc.Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			m.flags.observe.printNotice(m.io, m.logger, fmt.Sprintf("%s is taken: serving at %s", m.flags.addr, l.Addr()))
			return l, nil
		}
	}
	return nil, taken
}

// serveUntilDone serves until ctx ends, then lets running turns end.
func (m *serveMain) serveUntilDone(ctx context.Context, listener net.Listener) error {
	watching, stopWatching := context.WithCancel(ctx)
	watched := make(chan error, 1)
	go func() {
		defer safe.Recover(func(p *safe.Panic) {
			p.Log(m.logger, "watching for changes panicked")
			watched <- errors.New("watching for changes panicked, see the log")
		})
		watched <- m.watch.Run(watching)
	}()
	var background sync.WaitGroup
	defer background.Wait()
	defer stopWatching()
	background.Go(func() {
		defer safe.Recover(m.backgroundPanicked)
		m.pruneRegularly(watching)
	})
	background.Go(func() {
		defer safe.Recover(m.backgroundPanicked)
		m.reloadOnSignal(watching)
	})
	web := &http.Server{
		Handler: m.flags.observe.withProfiler(m.server, m.server.Protect), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(m.logger.Handler(), slog.LevelWarn),
	}
	served := make(chan error, 1)
	go func() {
		defer safe.Recover(func(p *safe.Panic) {
			p.Log(m.logger, "accepting connections panicked")
			served <- errors.New("accepting connections panicked, see the log")
		})
		served <- web.Serve(listener)
	}()
	m.printGreeting("http://" + listener.Addr().String())
	for range 2 { // what loading has left behind; what pools keep goes with the second
		debug.FreeOSMemory()
	}
	pace.Keep()
	var err error
	select {
	case <-ctx.Done():
		err = m.shutDown(web)
	case err = <-served:
	}
	stopWatching()
	return failWith(errors.Join(err, <-watched))
}

// backgroundPanicked is for work that nobody waits for.
func (m *serveMain) backgroundPanicked(p *safe.Panic) { p.Log(m.logger, "background work panicked") }

// shutDown refuses new runs, and gives those under way their time.
func (m *serveMain) shutDown(web *http.Server) error {
	m.flags.observe.printNotice(m.io, m.logger, "stopping: turns under way may end, a second signal stops at once")
	ctx, cancel := context.WithTimeout(context.Background(), m.flags.drain)
	defer cancel()
	m.server.Drain()
	// Shutdown would close the listener first: who comes now is told to come
	// again, and not left without an answer.
	err := m.server.Wait(ctx)
	if err == nil {
		err = web.Shutdown(ctx)
	}
	if err != nil {
		m.server.Abort()
		web.Close()
		return fmt.Errorf("turns were still under way after %s: %w", m.flags.drain, err)
	}
	return nil
}

// printGreeting prints the apps, the address, and a request to try.
func (m *serveMain) printGreeting(url string) {
	// One write: who waits for the greeting sees all of it.
	out := new(bytes.Buffer)
	defer func() { _, _ = out.WriteTo(m.io.out) }()
	fmt.Fprintf(out, "agenthost serves at %s\nOpen %s/ in a browser to talk to the apps; %s/docs describes the API.\n\n", url, url, url)
	example := ""
	for _, s := range m.watch.Statuses() {
		state := m.host.App(s.App)
		if state == nil && s.Loading {
			fmt.Fprintf(out, "  %-12s is still loading\n", s.App)
			continue
		}
		if state == nil {
			fmt.Fprintf(out, "  %-12s has problems: agenthost check %s\n", s.App, s.Dir)
			continue
		}
		if example == "" || s.App == "hello" {
			example = s.App
		}
		fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf("  %-12s %s", s.App, firstLine(state.Description)), " "))
	}
	if len(m.watch.Statuses()) == 0 {
		m.printEmptyGreeting(out)
	}
	if example != "" {
		out.WriteString(m.exampleRequest(url, example))
	}
}

// exampleRequest is a first turn by curl. Where callers are asked who they are, it takes their
// token, and their name for the path.
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

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
