package evalcommand

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"agenthost/internal/command"
	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/store"
	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalreport"
	"agenthost/wing/evaluation/evalrun"
)

// evalFlags are the flags for eval.
type evalFlags struct {
	load            command.LoadFlags
	plan            evalrun.PlanOptions
	models          []string
	baseline        string
	sessionDB       string
	runs, parallel  int
	timeout         time.Duration
	output, results string
	reports         []string
	verbose, resume bool
	noCache         bool
}

// The limits for --runs and --parallel: each run calls models, which costs money.
const (
	maxEvalRuns     = 1000
	maxEvalParallel = 256
)

func newEvalCommand(env command.Env) *cobra.Command {
	var f evalFlags
	cmd := &cobra.Command{
		Use:   "eval DIR [SET[:CASE,CASE]...]",
		Short: "Evaluate an app on eval sets",
		Long: `Eval runs the cases of eval sets on an app with its own models and tools, each case in
a new session in memory, and scores the answers. DIR is an app. SET is a file, or the
name or ID of a set in the app (default: all *.eval.yaml, *.evalset.json, *.evalset.yaml
and *.test.json).
The metrics are those of --metrics, or else of --config, or else of the set in YAML, or
else of the test_config.json next to the set, or else tool_trajectory=1 and
response_match=0.8. The results are stored in the app's .adk/eval_history. The exit status
is 1 when a case fails, is not evaluated or crashes, or a file has problems, and 3 when
a set has no case to run.`,
		Args:    command.RequireArgs(1, -1),
		PreRunE: command.ApplyEnvironment,
		RunE: func(cmd *cobra.Command, args []string) error {
			return evaluateApp(cmd.Context(), env, &f, args)
		},
	}
	flags := cmd.Flags()
	f.load.RegisterFlags(env, flags)
	flags.StringSliceVar(&f.plan.Metrics, "metrics", nil, "metrics by name, each with an optional threshold, such as response_match=0.7,safety")
	flags.StringVar(&f.plan.Config, "config", "", "file with metric criteria (default: the test_config.json next to each set)")
	flags.StringVar(&f.plan.Judge, "judge", "", "model for judges, simulated users and simulated tools whose config names none (default: "+eval.DefaultJudgeModel+")")
	flags.StringSliceVar(&f.models, "model", nil, "run the cases with this model instead of the agents' own models: a name under models:, or PROVIDER/NAME; repeatable, for a result per model")
	flags.IntVar(&f.runs, "runs", 1, "how often each case runs; scores are means over the turns in all runs")
	flags.IntVar(&f.parallel, "parallel", 4, "how many cases run at the same time")
	flags.DurationVar(&f.timeout, "timeout", 5*time.Minute, "maximum duration of a case's conversation")
	flags.BoolVar(&f.plan.Live, "live", false, "hold the conversations live: with a live model by its own connection, with another one by text")
	flags.BoolVar(&f.plan.AllowNotEvaluated, "allow-not-evaluated", false, "let a case pass by its other metrics if one was not evaluated, as in ADK")
	flags.StringVar(&f.output, "output", "table", "output format: table, json, junit, csv or html (one page without other files)")
	flags.StringSliceVar(&f.reports, "report", nil, "also write a report to this file: a .html, .xml (JUnit), .json or .csv; repeatable")
	flags.StringVar(&f.baseline, "baseline", "", "compare with a stored result: its file or ID, or the newest results for an app revision; the exit status is 1 on a regression, not if cases fail that failed before")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "print the turns of every case")
	flags.BoolVar(&f.noCache, "no-cache", false, "request all judge answers, and do not store them in the app's .adk/eval_cache")
	flags.StringVar(&f.results, "results", "", "result folder (default: .adk/eval_history in the app)")
	flags.StringVar(&f.sessionDB, "session-db", "", "session database URL that stores the results as well (default: none)")
	flags.BoolVar(&f.resume, "resume", false, "continue the last run of each set that was interrupted, without running its cases again")
	return cmd
}

func (f *evalFlags) validateFlags() error {
	if f.output == "text" {
		f.output = "table" // as in other commands
	}
	if !slices.Contains(evalreport.Formats(), f.output) {
		return fmt.Errorf("--output must be table, json, junit, csv or html, got %q", f.output)
	}
	for _, path := range f.reports {
		if _, err := reportFormat(path); err != nil {
			return err
		}
	}
	switch {
	case f.verbose && f.output != "table":
		return fmt.Errorf("--verbose requires --output table, got %s", f.output)
	case f.runs < 1 || f.runs > maxEvalRuns:
		return fmt.Errorf("--runs must be between 1 and %d, got %d", maxEvalRuns, f.runs)
	case f.parallel < 1 || f.parallel > maxEvalParallel:
		return fmt.Errorf("--parallel must be between 1 and %d, got %d", maxEvalParallel, f.parallel)
	case len(slices.Compact(slices.Sorted(slices.Values(f.models)))) < len(f.models):
		return fmt.Errorf("--model must name each model once, got %s", strings.Join(f.models, ", "))
	case f.timeout <= 0:
		return fmt.Errorf("--timeout must be positive, got %s", f.timeout)
	}
	return nil
}

func evaluateApp(ctx context.Context, env command.Env, f *evalFlags, args []string) error {
	if err := f.validateFlags(); err != nil {
		return err
	}
	dir := args[0]
	if err := command.CheckApp(dir); err != nil {
		return err
	}
	opts, err := f.load.LoaderOptions(nil, dir)
	if err != nil {
		return err
	}
	opts.WrapModel = evalrun.WrapModel
	e := &evaluation{env: env, flags: f, dir: dir}
	defer e.closeAll()
	if err := e.openService(ctx, env.NewLoader(opts)); err != nil {
		return command.FailWith(err)
	}
	f.plan.Vertex = e.service != nil
	jobs, err := evalrun.Plan(dir, eval.ParseSelections(args[1:]), &f.plan)
	if err != nil {
		return planFailure(env, err)
	}
	for _, job := range jobs {
		if err := env.WriteDiagnostics(job.Warnings); err != nil {
			return err
		}
	}
	models := f.models
	if len(models) == 0 {
		models = []string{""} // the app's
	}
	for _, model := range models {
		e.subjects = append(e.subjects, &evalSubject{model: model})
	}
	if err := e.readBaselines(jobs); err != nil {
		return planFailure(env, err)
	}
	if err := e.openResults(ctx); err != nil {
		return err
	}
	if err := e.loadAll(ctx, opts, evalrun.ModelNames(jobs)); err != nil {
		return err
	}
	return e.runJobs(ctx, jobs)
}

// planFailure returns a plan's error with its exit status: problems for a file, failure if
// there is nothing to run, else wrong usage.
func planFailure(env command.Env, err error) error {
	if ds := spec.Diagnostics(nil); errors.As(err, &ds) {
		if err := env.WriteDiagnostics(ds); err != nil {
			return err
		}
		return &command.ExitError{Code: command.ExitProblems}
	}
	if at := (*fs.PathError)(nil); errors.Is(err, evalrun.ErrNoSets) || errors.Is(err, evalrun.ErrNoCases) || errors.As(err, &at) {
		return command.FailWith(err)
	}
	return err
}

// An evaluation runs jobs and reports them.
type evaluation struct {
	env   command.Env
	flags *evalFlags
	dir   string
	// subjects are the app, once for each model.
	subjects []*evalSubject
	judges   evalrun.Models
	// service is Vertex AI, nil without it.
	service eval.Service
	// answers is the cache for judge answers, nil without one.
	answers      *evalrun.AnswerCache
	fingerprints map[string]string
	progress     *progressBar
	// results is the store for --session-db, nil without one.
	results  *store.Results
	releases []func()
}

// An evalSubject is an app with its own models, or with one model for all agents.
type evalSubject struct {
	app   *runtime.App
	model string
	// baselines are the --baseline results by set ID.
	baselines map[string]*eval.SetResult
}

// readBaselines reads the baselines for all sets and models, and prints the sets without one.
func (e *evaluation) readBaselines(jobs []*evalrun.Job) error {
	if e.flags.baseline == "" {
		return nil
	}
	finder, err := evalrun.NewBaselineFinder(e.resultFolder(), e.flags.baseline)
	if err != nil {
		return err
	}
	without, err := finder.CheckJobs(jobs)
	if err != nil {
		return err
	}
	for _, set := range without {
		fmt.Fprintf(e.env.Err, "baseline %s has no result of eval set %s\n", e.flags.baseline, set)
	}
	for _, s := range e.subjects {
		s.baselines = map[string]*eval.SetResult{}
		for _, job := range jobs {
			if s.baselines[job.Set.ID], err = finder.FindBaseline(job, s.model); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *evaluation) resultFolder() string {
	return cmp.Or(e.flags.results, filepath.Join(e.dir, filepath.FromSlash(eval.HistoryFolder)))
}

// loadAll loads the app, the judge models and the --model models.
func (e *evaluation) loadAll(ctx context.Context, opts *loader.Options, judges []string) error {
	l := e.env.NewLoader(opts)
	app, err := e.loadApp(ctx, l)
	if err != nil {
		return err
	}
	if e.judges, err = e.openModels(ctx, l, judges, "the model of a judge"); err != nil {
		return err
	}
	e.openCache(ctx, l, judges)
	if len(e.flags.models) == 0 {
		e.subjects[0].app = app
		return nil
	}
	models, err := e.openModels(ctx, l, e.flags.models, "--model")
	if err != nil {
		return err
	}
	for _, s := range e.subjects {
		replaced := *opts
		replaced.Model = models[s.model]
		if s.app, err = e.loadApp(ctx, e.env.NewLoader(&replaced)); err != nil {
			return err
		}
	}
	return nil
}

// openService opens Vertex AI's evaluation service if there are credentials.
func (e *evaluation) openService(ctx context.Context, l *loader.Loader) error {
	service, release, err := l.OpenEvaluator(ctx, e.dir)
	if service == nil {
		return err
	}
	e.service = service
	e.releases = append(e.releases, release)
	return nil
}

func (e *evaluation) loadApp(ctx context.Context, l *loader.Loader) (*runtime.App, error) {
	app, ds := l.Load(ctx, e.dir)
	if err := e.env.WriteDiagnostics(ds); err != nil {
		return nil, err
	}
	if app == nil {
		return nil, &command.ExitError{Code: command.ExitProblems, Err: fmt.Errorf("%s has problems", e.dir)}
	}
	e.releases = append(e.releases, app.Close)
	return app, nil
}

func (e *evaluation) openModels(ctx context.Context, l *loader.Loader, names []string, what string) (evalrun.Models, error) {
	models, release, ds := l.OpenModels(ctx, e.dir, names)
	if err := e.env.WriteDiagnostics(ds); err != nil {
		return nil, err
	}
	if models == nil {
		return nil, &command.ExitError{Code: command.ExitProblems, Err: fmt.Errorf("%s has problems", what)}
	}
	e.releases = append(e.releases, release)
	return models, nil
}

// openResults opens the --session-db database, and creates it if necessary. It does not
// migrate an older schema.
func (e *evaluation) openResults(ctx context.Context) error {
	if e.flags.sessionDB == "" {
		return nil
	}
	st, err := (&command.StoreFlags{SessionDB: e.flags.sessionDB, Schemes: e.env.Schemes}).OpenStoreFor(ctx, command.CreateDatabase)
	if err != nil {
		return err
	}
	e.results = st.Results
	e.releases = append(e.releases, func() { st.Close() })
	return nil
}

// openCache opens the cache for judge answers. Without it, for example in a folder that
// cannot be written, all answers are requested.
func (e *evaluation) openCache(ctx context.Context, l *loader.Loader, judges []string) {
	if e.flags.noCache || len(judges) == 0 {
		return
	}
	e.fingerprints = l.FingerprintModels(ctx, e.dir, judges)
	if len(e.fingerprints) == 0 {
		return
	}
	answers, err := evalrun.OpenAnswerCache(filepath.Join(e.dir, ".adk", "eval_cache"), nil)
	if err != nil {
		fmt.Fprintf(e.env.Err, "judge answers are not cached: %v\n", err)
		return
	}
	e.answers = answers
	e.releases = append(e.releases, func() {
		if err := answers.Close(); err != nil {
			fmt.Fprintln(e.env.Err, err)
		}
	})
}

// closeAll closes apps before the models that they use.
func (e *evaluation) closeAll() {
	for _, release := range slices.Backward(e.releases) {
		release()
	}
}

func (e *evaluation) runJobs(ctx context.Context, jobs []*evalrun.Job) error {
	began := time.Now()
	reports, err := e.flags.openReports()
	if err != nil {
		return command.FailWith(err)
	}
	defer reports.closeAll()
	total, done := evalrun.CountCases(jobs)*e.flags.runs*len(e.subjects), 0
	e.progress = newProgressBar(e.env.Err, total)
	defer e.progress.clearLine()
	for _, subject := range e.subjects {
		for _, job := range jobs {
			ended, err := e.runJob(ctx, subject, job, reports)
			if done += ended; err != nil && ctx.Err() != nil {
				err = fmt.Errorf("interrupted after %d of %d case runs: continue with --resume", done, total)
			}
			if err != nil {
				return command.FailWith(err)
			}
		}
	}
	e.progress.clearLine()
	if err := reports.writeAll(e.env, time.Since(began)); err != nil {
		return command.FailWith(err)
	}
	if !reports.output.HasPassed() {
		return &command.ExitError{Code: command.ExitProblems}
	}
	return nil
}

// runJob runs a job's cases, adds them to the reports, and returns how many runs have ended.
func (e *evaluation) runJob(ctx context.Context, subject *evalSubject, job *evalrun.Job, reports *evalReports) (ended int, err error) {
	journal, err := e.openJournal(subject, job)
	if err != nil {
		return 0, err
	}
	runner := &evalrun.Runner{
		App: subject.app, Models: e.judges, Service: e.service, Runs: e.flags.runs, Parallel: e.flags.parallel, Timeout: e.flags.timeout,
		Cache: e.answers, Fingerprints: e.fingerprints,
	}
	if err := runner.Run(ctx, job, e.progress.wrapLog(journal)); err != nil {
		journal.Close()
		return journal.Len(), err
	}
	if err := reports.addRun(job, journal, subject.baselines[job.Set.ID]); err != nil {
		return journal.Len(), err
	}
	path, err := journal.Finish()
	if err != nil {
		return journal.Len(), err
	}
	reports.addFile(path)
	if e.results == nil { // without --session-db
		return journal.Len(), nil
	}
	return journal.Len(), evalrun.SaveResult(ctx, e.results, journal, path)
}

// openJournal creates a job's journal, or opens the interrupted run's.
func (e *evaluation) openJournal(s *evalSubject, job *evalrun.Job) (*evalrun.Journal, error) {
	subject := evalrun.Subject{App: s.app.Name(), Revision: s.app.Revision(), Model: s.model}
	folder := e.resultFolder()
	if e.flags.resume {
		journal, err := job.Resume(folder, subject)
		if journal != nil || err != nil {
			return journal, err
		}
		e.progress.clearLine()
		fmt.Fprintf(e.env.Err, "no interrupted run of eval set %s: running all its cases\n", job.Set.ID)
	}
	return job.Begin(folder, subject, time.Now())
}
