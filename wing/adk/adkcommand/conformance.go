package adkcommand

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"agenthost/internal/command"
	"agenthost/internal/safe"
	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/spec"
	"agenthost/pkg/store/memstore"
	"agenthost/wing/adk/conformance"
)

// conformanceFlags are the flags for conformance verbs.
type conformanceFlags struct {
	load      command.LoadFlags
	apps      []string
	modes     string
	runMode   string
	url       string
	report    bool
	reportDir string
	json      bool
}

func newConformanceCommand(env command.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "conformance",
		Short: "Run and record the cases of ADK's conformance suite",
		Long: `Conformance runs recorded conversations in the files of ADK's conformance suite: each
case is a folder CATEGORY/NAME with a spec.yaml, generated-recordings.yaml and
generated-session.yaml, and the same with -sse for streaming. Models and tools answer as
they were recorded, and the stored session must be the recorded one.`,
	}
	command.AddSubcommands(cmd, newConformanceTestCommand(env), newConformanceRecordCommand(env))
	return cmd
}

func (f *conformanceFlags) registerFlags(env command.Env, cmd *cobra.Command) {
	f.load.RegisterFlags(env, cmd.Flags())
	command.RegisterOutput(cmd.Flags(), &f.json, false)
	cmd.Flags().StringSliceVar(&f.apps, "apps", []string{"."}, "folders that contain the cases' apps, at any depth; repeatable")
}

func newConformanceTestCommand(env command.Env) *cobra.Command {
	var f conformanceFlags
	cmd := &cobra.Command{
		Use:   "test [PATH...]",
		Short: "Replay cases and compare the stored sessions",
		Long: `Test replays the cases in the folders (default: tests), by default in both streaming
modes. A case without recordings of a mode is skipped. The apps are served in this
process, without network and keys; with --url, a server replays them, such as
agenthost serve --replay-recordings. The exit status is 1 if a case fails.`,
		PreRunE: command.ApplyEnvironment,
		RunE: func(cmd *cobra.Command, args []string) error {
			return testConformance(cmd.Context(), env, &f, args)
		},
	}
	f.registerFlags(env, cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.modes, "streaming-mode", "", "none or sse (default: both)")
	flags.StringVar(&f.runMode, "mode", "replay", "replay; ADK does not implement its live mode either")
	flags.StringVar(&f.url, "url", "", "address of a server that replays the cases, such as http://127.0.0.1:8000 (default: this process)")
	flags.BoolVar(&f.report, "generate-report", false, "also write a report in Markdown")
	flags.StringVar(&f.reportDir, "report-dir", ".", "report folder")
	return cmd
}

func newConformanceRecordCommand(env command.Env) *cobra.Command {
	var f conformanceFlags
	cmd := &cobra.Command{
		Use:   "record PATH... [none|sse]",
		Short: "Record cases with their apps' models and tools",
		Long: `Record sends the messages of the cases in the folders to their apps, with their own
models and tools, and writes the recordings and the session of each case, which it
replaces. The last argument is the streaming mode (default: none).`,
		Args:    command.RequireArgs(1, -1),
		PreRunE: command.ApplyEnvironment,
		RunE: func(cmd *cobra.Command, args []string) error {
			return recordConformance(cmd.Context(), env, &f, args)
		},
	}
	f.registerFlags(env, cmd)
	return cmd
}

// selectModes returns the --streaming-mode modes.
func (f *conformanceFlags) selectModes() ([]conformance.Mode, error) {
	switch f.modes {
	case "":
		return []conformance.Mode{conformance.ModeNone, conformance.ModeSSE}, nil
	case "none", "sse":
		return []conformance.Mode{conformance.Mode(f.modes)}, nil
	}
	return nil, fmt.Errorf("--streaming-mode must be none or sse, got %q", f.modes)
}

func testConformance(ctx context.Context, env command.Env, f *conformanceFlags, paths []string) error {
	modes, err := f.selectModes()
	if err != nil {
		return err
	}
	if f.runMode != "replay" {
		return fmt.Errorf("--mode must be replay, got %q", f.runMode)
	}
	if len(paths) == 0 {
		paths = []string{"tests"}
	}
	cases, err := findCases(env, paths)
	if err != nil {
		return err
	}
	t := &conformanceRun{env: env, progress: env.Out, client: &conformance.Runner{
		Client: &http.Client{}, URL: strings.TrimSuffix(f.url, "/"), OwnUsers: f.url != "",
	}}
	if f.url != "" {
		if err := t.checkServer(ctx, f.url); err != nil {
			return err
		}
	} else {
		replayer := &conformance.Replayer{Root: rootFolder(cases[0].Dir)}
		t.replay, t.wrap = replayer, replayer.Run
		if err := t.loadApps(ctx, f, cases); err != nil {
			return err
		}
		defer t.closeApps()
	}
	if f.json {
		t.progress = io.Discard
	}
	line := strings.Repeat("=", 50)
	fmt.Fprintf(t.progress, "%s\nRunning ADK conformance tests in replay mode...\n%s\n", line, line)
	var all []*conformance.Summary
	ran, failed := 0, 0
	for _, mode := range modes {
		s, err := t.runCases(ctx, cases, mode)
		if err != nil {
			return err
		}
		if err := s.WriteText(t.progress); err != nil {
			return command.FailWith(err)
		}
		all, ran, failed = append(all, s), ran+len(s.Results), failed+s.Failed()
	}
	if f.report {
		if err := f.writeReport(ctx, t, all); err != nil {
			return err
		}
	}
	if f.json && ran > 0 {
		if err := env.PrintJSON(all); err != nil {
			return err
		}
	}
	switch {
	case ran == 0:
		return command.FailWithf("no case has recordings; hint: write them with agenthost conformance record %s", strings.Join(paths, " "))
	case failed > 0:
		fmt.Fprintf(t.progress, "\n%d test(s) failed\n", failed)
		return &command.ExitError{Code: command.ExitProblems}
	}
	fmt.Fprintf(t.progress, "\nAll tests passed!\n")
	return nil
}

// checkServer reports an invalid URL, or one at which no server responds. The response's
// content does not count: not all servers report their version.
func (t *conformanceRun) checkServer(ctx context.Context, address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("--url must be an address such as http://127.0.0.1:8000, got %q", address)
	}
	var unreachable *url.Error
	if _, err := t.client.ReadVersion(ctx); errors.As(err, &unreachable) {
		return command.FailWithf("the server at --url cannot be reached: %w; hint: start it with agenthost serve DIR --replay-recordings DIR", unreachable.Err)
	}
	return nil
}

func findCases(env command.Env, paths []string) ([]*conformance.Case, error) {
	cases, err := conformance.FindCases(paths)
	if ds := spec.Diagnostics(nil); errors.As(err, &ds) {
		if err := env.WriteDiagnostics(ds); err != nil {
			return nil, err
		}
		return nil, &command.ExitError{Code: command.ExitProblems}
	}
	return cases, command.FailWith(err)
}

// rootFolder returns the file system root for a path: the command's user has named the case
// folders.
func rootFolder(path string) string {
	return filepath.VolumeName(path) + string(filepath.Separator)
}

// A conformanceRun runs cases on a server, by default in this process.
type conformanceRun struct {
	env    command.Env
	client *conformance.Runner
	// progress receives the results of cases as text.
	progress io.Writer
	// apps, replay and wrap belong to the server in this process.
	apps   []*runtime.App
	replay runtime.Replay
	wrap   wrapRun
	// unavailable is why an app cannot be served, by its name. Its cases fail, and all others run.
	unavailable map[string]error
}

// runCases runs a mode's cases. In this process each has an empty store.
func (t *conformanceRun) runCases(ctx context.Context, cases []*conformance.Case, mode conformance.Mode) (*conformance.Summary, error) {
	s := &conformance.Summary{Mode: mode, Results: []*conformance.Result{}, Skipped: []*conformance.Case{}}
	for _, c := range cases {
		if !c.HasRecordings(mode) {
			fmt.Fprintf(t.progress, "Skipping %s: no recordings\n", c)
			s.Skipped = append(s.Skipped, c)
			continue
		}
		fmt.Fprintf(t.progress, "Running %s...", c)
		result, err := t.runCase(ctx, c, mode)
		if err != nil {
			return nil, err
		}
		if result.Passed() {
			fmt.Fprint(t.progress, " ✓ PASS\n")
		} else {
			fmt.Fprintf(t.progress, " ✗ FAIL\nError: %s\n", result.Error)
		}
		s.Results = append(s.Results, result)
	}
	return s, nil
}

// runCase returns a case's result. An error ends the command.
func (t *conformanceRun) runCase(ctx context.Context, c *conformance.Case, mode conformance.Mode) (*conformance.Result, error) {
	if err := t.unavailable[c.Spec.Agent]; err != nil {
		return conformance.FailCase(c, mode, err), nil
	}
	var result *conformance.Result
	err := t.serveCase(ctx, func() error {
		result = t.client.RunCase(ctx, c, mode)
		return nil
	})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return result, err
}

func (f *conformanceFlags) writeReport(ctx context.Context, t *conformanceRun, all []*conformance.Summary) error {
	var version *conformance.Version
	err := t.serveCase(ctx, func() (err error) {
		version, err = t.client.ReadVersion(ctx)
		return err
	})
	if err != nil {
		return command.FailWithf("reading the server's version: %w", err)
	}
	path := filepath.Join(f.reportDir, version.ReportName())
	file, err := os.Create(path)
	if err != nil {
		return command.FailWith(err)
	}
	if err := errors.Join(conformance.WriteMarkdown(file, version, all), file.Close()); err != nil {
		return command.FailWith(err)
	}
	fmt.Fprintf(t.env.Err, "report: %s\n", path)
	return nil
}

func recordConformance(ctx context.Context, env command.Env, f *conformanceFlags, args []string) error {
	mode := conformance.ModeNone
	switch last := args[len(args)-1]; last {
	case "none", "sse":
		mode, args = conformance.Mode(last), args[:len(args)-1]
	case "bidi":
		return errors.New("live conversations cannot be recorded: use none or sse")
	}
	if len(args) == 0 {
		return errors.New("name a folder with cases before the streaming mode")
	}
	cases, err := findCases(env, args)
	if err != nil {
		return err
	}
	recorder := &conformance.Recorder{}
	t := &conformanceRun{env: env, client: &conformance.Runner{Client: &http.Client{}, Timeout: 10 * time.Minute}, replay: recorder, wrap: recorder.Run}
	if err := t.loadApps(ctx, f, cases); err != nil {
		return err
	}
	defer t.closeApps()
	var recorded []*conformance.Case
	for _, c := range cases {
		if err := t.unavailable[c.Spec.Agent]; err != nil {
			return &command.ExitError{Code: command.ExitProblems, Err: fmt.Errorf("recording %s: %w", c, err)}
		}
		if err := t.serveCase(ctx, func() error { return recorder.RecordCase(ctx, t.client, c, mode) }); err != nil {
			return command.FailWithf("recording %s: %w", c, err)
		}
		recorded = append(recorded, c)
		if !f.json {
			fmt.Fprintf(env.Out, "Recorded %s\n", c)
		}
	}
	if f.json {
		return env.PrintJSON(map[string]any{"mode": mode, "recorded": recorded})
	}
	return nil
}

// wrapRun runs a request with a case's recordings.
type wrapRun func(ctx context.Context, run conformance.RunFunc, req *runtime.RunRequest) runtime.Events

// serveCase serves the apps with an empty store while run runs, unless a server was named.
func (t *conformanceRun) serveCase(ctx context.Context, run func() error) error {
	if t.replay == nil {
		return run()
	}
	st := memstore.New(nil)
	defer st.Close()
	host := runtime.NewHost(st, &runtime.Options{Replay: t.replay}) // not closed: the apps are used again
	for _, app := range t.apps {
		host.Swap(app)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return command.FailWith(err)
	}
	web := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: server.New(host, &server.Options{
		Version: t.env.Version,
		Run: func(ctx context.Context, req *runtime.RunRequest) runtime.Events {
			return t.wrap(ctx, host.Run, req)
		},
	})}
	defer web.Close()
	go func() {
		defer safe.Recover(func(p *safe.Panic) { p.Log(slog.Default(), "accepting connections panicked") })
		_ = web.Serve(listener)
	}()
	t.client.URL = "http://" + listener.Addr().String()
	return run()
}

func (t *conformanceRun) closeApps() {
	for _, app := range t.apps {
		app.Close()
	}
}

// findApps returns the app folders below --apps by name.
func (f *conformanceFlags) findApps() (map[string][]string, error) {
	all := map[string][]string{}
	for _, root := range f.apps {
		err := filepath.WalkDir(filepath.Clean(root), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return err
			}
			if path != root && strings.HasPrefix(d.Name(), ".") {
				return fs.SkipDir
			}
			found, err := loader.Discover(path)
			for _, dir := range found {
				if name := filepath.Base(dir); !slices.Contains(all[name], dir) {
					all[name] = append(all[name], dir)
				}
			}
			return err
		})
		if errors.Is(err, fs.ErrNotExist) {
			return nil, command.FailWithf("--apps: folder %s not found", root)
		}
		if err != nil {
			return nil, command.FailWith(err)
		}
	}
	return all, nil
}

// selectApp returns the one app folder among those from [conformanceFlags.findApps].
func (f *conformanceFlags) selectApp(folders map[string][]string, name string) (string, error) {
	switch found := folders[name]; len(found) {
	case 1:
		return found[0], nil
	case 0:
		hint := "name its folder, or one above it, with --apps"
		if near := spec.Suggest(name, slices.Sorted(maps.Keys(folders))); near != "" {
			hint = fmt.Sprintf("did you mean %s?", near)
		}
		return "", fmt.Errorf("app %s not found in %s; hint: %s", name, strings.Join(f.apps, ", "), hint)
	default:
		return "", fmt.Errorf("app %s is in %s; hint: name the folder of one of them with --apps", name, strings.Join(found, " and "))
	}
}

// loadApps loads the apps for the cases.
func (t *conformanceRun) loadApps(ctx context.Context, f *conformanceFlags, cases []*conformance.Case) error {
	found, err := f.findApps()
	if err != nil {
		return err
	}
	t.unavailable = map[string]error{}
	folders := map[string]string{}
	for _, c := range cases {
		name := c.Spec.Agent
		if folders[name], err = f.selectApp(found, name); err != nil {
			delete(folders, name)
			t.unavailable[name] = err
		}
	}
	opts, err := f.load.LoaderOptions(nil, slices.Sorted(maps.Values(folders))...)
	if err != nil {
		return err
	}
	l := t.env.NewLoader(opts)
	for _, name := range slices.Sorted(maps.Keys(folders)) {
		app, ds := l.Load(ctx, folders[name])
		if app == nil {
			t.unavailable[name] = fmt.Errorf("app %s does not load:\n%s", name, strings.Join(ds.StringsWithHints(), "\n"))
			continue
		}
		t.apps = append(t.apps, app)
	}
	return nil
}
