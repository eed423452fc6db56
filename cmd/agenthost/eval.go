package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"agenthost/internal/evalreport"
	"agenthost/internal/evalrun"
	"agenthost/pkg/eval"
	"agenthost/pkg/loader"
	"agenthost/pkg/spec"
)

// evalFlags are the flags of eval.
type evalFlags struct {
	load            loadFlags
	plan            evalrun.PlanOptions
	runs, parallel  int
	timeout         time.Duration
	output, results string
	verbose, resume bool
}

// The limits of --runs and --parallel: each run calls models, which costs money.
const (
	maxEvalRuns     = 1000
	maxEvalParallel = 256
)

func newEvalCommand(io stdio) *cobra.Command {
	var f evalFlags
	cmd := &cobra.Command{
		Use:   "eval DIR [SET[:CASE,CASE]...]",
		Short: "Evaluate an app on eval sets",
		Long: `Eval runs the cases of eval sets on an app with its own models and tools, each case in
a new session in memory, and scores the answers. DIR is an app. SET is a file, or the
name or ID of a set in the app (default: all *.eval.yaml, *.evalset.json and *.test.json).
The metrics are those of --metrics, or else of --config, or else of the set in YAML, or
else of the test_config.json next to the set, or else tool_trajectory=1 and
response_match=0.8. The results are stored in the app's .adk/eval_history. The exit status
is 1 when a case fails, is not evaluated or crashes, or a file has problems, and 3 when
there is no case to run.`,
		Args:    requireArgs(1, -1),
		PreRunE: applyEnvironment,
		RunE: func(cmd *cobra.Command, args []string) error {
			return evaluateApp(cmd.Context(), io, &f, args)
		},
	}
	flags := cmd.Flags()
	f.load.registerFlags(flags)
	flags.StringSliceVar(&f.plan.Metrics, "metrics", nil, "metrics by name, each with an optional threshold, such as response_match=0.7,safety")
	flags.StringVar(&f.plan.Config, "config", "", "file with the criteria of metrics (default: the test_config.json next to each set)")
	flags.StringVar(&f.plan.Judge, "judge", "", "model of judges and simulated users whose config names none (default: "+eval.DefaultJudgeModel+")")
	flags.IntVar(&f.runs, "runs", 1, "how often each case runs; scores are means over the turns of all runs")
	flags.IntVar(&f.parallel, "parallel", 4, "how many cases run at the same time")
	flags.DurationVar(&f.timeout, "timeout", 5*time.Minute, "maximum duration of the conversation of a case")
	flags.BoolVar(&f.plan.AllowNotEvaluated, "allow-not-evaluated", false, "let a case pass by its other metrics if one was not evaluated, as in ADK")
	flags.StringVar(&f.output, "output", "table", "output format: table, json, junit or csv")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "print the turns of every case")
	flags.StringVar(&f.results, "results", "", "folder of the result files (default: .adk/eval_history in the app)")
	flags.BoolVar(&f.resume, "resume", false, "continue the last run of each set that was interrupted, without running its cases again")
	return cmd
}

func (f *evalFlags) validateFlags() error {
	if !slices.Contains(evalreport.Formats(), f.output) {
		return fmt.Errorf("--output must be table, json, junit or csv, got %q", f.output)
	}
	switch {
	case f.verbose && f.output != "table":
		return fmt.Errorf("--verbose requires --output table, got %s", f.output)
	case f.runs < 1 || f.runs > maxEvalRuns:
		return fmt.Errorf("--runs must be between 1 and %d, got %d", maxEvalRuns, f.runs)
	case f.parallel < 1 || f.parallel > maxEvalParallel:
		return fmt.Errorf("--parallel must be between 1 and %d, got %d", maxEvalParallel, f.parallel)
	case f.timeout <= 0:
		return fmt.Errorf("--timeout must be positive, got %s", f.timeout)
	}
	return nil
}

func evaluateApp(ctx context.Context, io stdio, f *evalFlags, args []string) error {
	if err := f.validateFlags(); err != nil {
		return err
	}
	dir := args[0]
	if err := checkApp(dir); err != nil {
		return err
	}
	jobs, err := evalrun.Plan(dir, eval.ParseSelections(args[1:]), &f.plan)
	if err != nil {
		return planFailure(io, err)
	}
	opts, err := f.load.loaderOptions(nil, dir)
	if err != nil {
		return err
	}
	opts.WrapModel = evalrun.WrapModel
	l := loader.New(opts)
	app, ds := l.Load(ctx, dir)
	if err := writeDiagnostics(io, ds); err != nil {
		return err
	}
	if app == nil {
		return &codedError{exitProblems, fmt.Errorf("%s has problems", dir)}
	}
	defer app.Close()
	models, release, ds := l.OpenModels(ctx, dir, evalrun.ModelNames(jobs))
	if err := writeDiagnostics(io, ds); err != nil {
		return err
	}
	if models == nil {
		return &codedError{exitProblems, errors.New("the model of a judge has problems")}
	}
	defer release()
	e := &evaluation{io: io, flags: f, dir: dir, runner: &evalrun.Runner{
		App: app, Models: models, Runs: f.runs, Parallel: f.parallel, Timeout: f.timeout,
	}}
	return e.runJobs(ctx, jobs)
}

// planFailure returns the error of a plan with its exit status: that of problems for a
// file, of a failure if there is nothing to run, else of wrong usage.
func planFailure(io stdio, err error) error {
	if ds := spec.Diagnostics(nil); errors.As(err, &ds) {
		if err := writeDiagnostics(io, ds); err != nil {
			return err
		}
		return &codedError{code: exitProblems}
	}
	if at := (*fs.PathError)(nil); errors.Is(err, evalrun.ErrNoSets) || errors.Is(err, evalrun.ErrNoCases) || errors.As(err, &at) {
		return failWith(err)
	}
	return err
}

// An evaluation runs jobs and reports them.
type evaluation struct {
	io     stdio
	flags  *evalFlags
	dir    string
	runner *evalrun.Runner
}

func (e *evaluation) runJobs(ctx context.Context, jobs []*evalrun.Job) error {
	began := time.Now()
	report, err := evalreport.New(e.flags.output, e.flags.verbose)
	if err != nil {
		return failWith(err)
	}
	defer report.Close()
	total, done := evalrun.CountCases(jobs)*e.flags.runs, 0
	for _, job := range jobs {
		journal, err := e.openJournal(job)
		if err != nil {
			return failWith(err)
		}
		if err := e.runner.Run(ctx, job, journal); err != nil {
			done += journal.Len()
			journal.Close()
			if ctx.Err() != nil {
				err = fmt.Errorf("interrupted after %d of %d runs of cases: continue with --resume", done, total)
			}
			return failWith(err)
		}
		done += journal.Len()
		if err := report.AddRun(job, journal); err != nil {
			return failWith(err)
		}
		path, err := journal.Finish()
		if err != nil {
			return failWith(err)
		}
		report.Files = append(report.Files, filepath.ToSlash(path))
	}
	report.Duration = time.Since(began)
	if err := report.Write(e.io.out, e.io.err); err != nil {
		return failWith(err)
	}
	if !report.HasPassed() {
		return &codedError{code: exitProblems}
	}
	return nil
}

// openJournal creates the journal of a job, or opens that of the interrupted run.
func (e *evaluation) openJournal(job *evalrun.Job) (*evalrun.Journal, error) {
	folder := e.flags.results
	if folder == "" {
		folder = filepath.Join(e.dir, filepath.FromSlash(eval.HistoryFolder))
	}
	app := e.runner.App
	if e.flags.resume {
		journal, err := job.Resume(folder, app.Name(), app.Revision())
		if journal != nil || err != nil {
			return journal, err
		}
	}
	return job.Begin(folder, app.Name(), app.Revision(), time.Now())
}
