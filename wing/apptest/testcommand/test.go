package testcommand

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	goruntime "runtime"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"agenthost/internal/command"
	"agenthost/pkg/loader"
	"agenthost/pkg/spec"
	"agenthost/wing/apptest"
)

// testFlags are the flags for test.
type testFlags struct {
	load    command.LoadFlags
	run     string
	format  string
	verbose bool
	watch   bool
	list    bool
	timeout time.Duration
}

func newTestCommand(env command.Env) *cobra.Command {
	var f testFlags
	cmd := &cobra.Command{
		Use:   "test DIR...",
		Short: "Run app tests",
		Long: `Test runs the tests in the *.test.yaml files of apps, in parallel and in memory:
models answer from the scripts of the tests, and nothing accesses the network. DIR is
an app or a folder of apps. The exit status is 1 when a test fails or a file has
problems, and 3 when there is no test to run.`,
		Args:    command.RequireArgs(1, -1),
		PreRunE: command.ApplyEnvironment,
		RunE: func(cmd *cobra.Command, dirs []string) error {
			t, err := newTester(env, &f, dirs)
			if err != nil {
				return err
			}
			switch {
			case f.list:
				return t.listTests(cmd.Context(), dirs)
			case f.watch:
				return t.watchApps(cmd.Context(), dirs)
			}
			return t.runOnce(cmd.Context(), dirs)
		},
	}
	flags := cmd.Flags()
	f.load.RegisterFlags(env, flags)
	flags.StringVar(&f.run, "run", "", "run only the tests whose names match this regular expression")
	command.RegisterFormat(flags, &f.format, "output format: text, json or junit")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "print every test with its transcript")
	flags.BoolVar(&f.watch, "watch", false, "rerun an app's tests when a file of the app or its tests is saved")
	flags.BoolVar(&f.list, "list", false, "list the tests instead of running them")
	flags.DurationVar(&f.timeout, "timeout", 30*time.Second, "maximum duration of a test")
	return cmd
}

// tester runs tests and reports them.
type tester struct {
	env    command.Env
	flags  *testFlags
	name   *regexp.Regexp
	loader *loader.Loader
}

func newTester(env command.Env, f *testFlags, dirs []string) (*tester, error) {
	name, err := regexp.Compile(f.run)
	if err != nil {
		return nil, fmt.Errorf("--run %q: %w", f.run, err)
	}
	switch f.format {
	case "text", "json", "junit":
	default:
		return nil, fmt.Errorf("--output must be text, json or junit, got %q", f.format)
	}
	if f.list && (f.watch || f.format == "junit") {
		return nil, errors.New("--list requires --output text or json, and cannot be combined with --watch")
	}
	if f.watch && f.format != "text" {
		return nil, fmt.Errorf("--watch requires --output text, got %s", f.format)
	}
	opts, err := f.load.LoaderOptions(nil, dirs...)
	if err != nil {
		return nil, err
	}
	return &tester{env: env, flags: f, name: name, loader: env.NewLoader(opts)}, nil
}

// runOnce runs all tests in all apps once.
func (t *tester) runOnce(ctx context.Context, dirs []string) error {
	began := time.Now()
	apps, err := command.DiscoverApps(dirs)
	if err != nil {
		return err
	}
	r := &testReport{}
	for _, dir := range apps {
		t.testApp(ctx, dir, r)
	}
	r.duration = time.Since(began)
	if err := t.writeReport(r); err != nil {
		return command.FailWith(err)
	}
	switch {
	case r.problems.HasErrors() || r.countFailed() > 0:
		return &command.ExitError{Code: command.ExitProblems}
	case len(r.results) == 0 && t.flags.run != "":
		return command.FailWithf("no test name matches %s", t.flags.run)
	case len(r.results) == 0:
		return command.FailWithf("no tests found: write one in a file next to an agent, such as %s/root_agent.test.yaml", apps[0])
	}
	return nil
}

// testApp runs an app's tests in parallel, one per processor.
func (t *tester) testApp(ctx context.Context, dir string, r *testReport) {
	suite, ds := apptest.OpenSuite(ctx, t.loader, dir)
	r.problems = append(r.problems, ds...)
	if suite == nil {
		return
	}
	var tests []*apptest.Test
	for _, test := range suite.Tests {
		if t.name.MatchString(test.Name) {
			tests = append(tests, test)
		}
	}
	results := make([]*apptest.Result, len(tests))
	var wg sync.WaitGroup
	slots := make(chan struct{}, goruntime.GOMAXPROCS(0))
	for i, test := range tests {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeoutCause(ctx, t.flags.timeout, fmt.Errorf("the test exceeded the timeout of %s", t.flags.timeout))
			defer cancel()
			results[i] = suite.Run(ctx, test)
		})
	}
	wg.Wait()
	r.results = append(r.results, results...)
}

// writeReport writes the report in its format.
func (t *tester) writeReport(r *testReport) error {
	switch t.flags.format {
	case "json":
		return r.writeJSON(t.env)
	case "junit":
		return r.writeJUnit(t.env)
	}
	return r.writeText(t.env, t.flags.verbose)
}

// testReport holds the test results by app.
type testReport struct {
	problems spec.Diagnostics
	results  []*apptest.Result
	duration time.Duration
}

func (r *testReport) countFailed() int {
	n := 0
	for _, result := range r.results {
		if !result.Passed() {
			n++
		}
	}
	return n
}
