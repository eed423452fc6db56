package evalrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"agenthost/internal/safe"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/store"
	"agenthost/wing/evaluation/eval"
)

// A HostRunner runs eval sets on the apps that a host serves. It is safe for concurrent use.
type HostRunner struct {
	Host *runtime.Host
	Apps Apps
	// Parallel is how many cases run at once; 0 is 4.
	Parallel int
	// CaseTimeout limits a case's conversation, RunTimeout the run: cases that have not ended
	// then have failed. 0 is 5 and 30 minutes.
	CaseTimeout, RunTimeout time.Duration
	Logger                  *slog.Logger
	// Clock and NewID are as in a [Runner].
	Clock func() time.Time
	NewID func() string
}

// Apps gives access to app folders and models.
type Apps interface {
	// Open opens an app's folder.
	Open(app string) (*os.Root, error)
	// OpenModels builds an app's models by their names. The models are nil if there are
	// errors; else the caller calls release after the last model call.
	OpenModels(ctx context.Context, app string, names []string) (models map[string]model.LLM, release func(), ds spec.Diagnostics)
}

// The defaults for a HostRunner.
const (
	defaultParallel    = 4
	defaultCaseTimeout = 5 * time.Minute
	defaultRunTimeout  = 30 * time.Minute
)

// Evaluate runs cases on the app revision that is active now, and stores the result in the
// app's folder and in the host's session database. If the folder is read-only, the session
// database suffices; if only the session database fails, the error is logged. It yields the
// run's start, and each case that ended. An error ends the run, and nothing is stored; an
// error in the request or its models is a [runtime.RunError], and comes before the start. A
// consumer that stops cancels the run, and nothing is stored.
func (h *HostRunner) Evaluate(ctx context.Context, req *eval.RunRequest) iter.Seq2[*eval.RunProgress, error] {
	return func(yield func(*eval.RunProgress, error) bool) {
		job, err := PlanRun(req)
		if err != nil {
			yield(nil, requestError(err, err.Error()))
			return
		}
		run := &hostRun{HostRunner: h, job: job}
		defer run.releaseAll()
		if err := run.openRun(ctx, req.App); err != nil {
			yield(nil, err)
			return
		}
		run.runCases(ctx, yield)
	}
}

func requestError(err error, message string) error {
	return &runtime.RunError{Code: runtime.CodeInvalidRequest, Message: message, Err: err}
}

// A hostRun runs a job on a served app.
type hostRun struct {
	*HostRunner
	job     *Job
	runner  *Runner
	journal *Journal
	// databaseOnly reports that the app's folder is read-only: the journal is in a temporary
	// folder, and only the session database stores the result.
	databaseOnly bool
	// releases are called at the end in reverse order.
	releases []func()
}

func (r *hostRun) releaseAll() {
	if r.journal != nil {
		if err := r.journal.Discard(); err != nil && r.Logger != nil {
			r.Logger.Warn("deleting a canceled eval run's file failed", "error", err)
		}
	}
	for i := range r.releases {
		r.releases[len(r.releases)-1-i]()
	}
}

// openRun holds the app, builds the judge models and creates the result file.
func (r *hostRun) openRun(ctx context.Context, name string) error {
	app, release, err := r.Host.Acquire(name)
	if err != nil {
		return err
	}
	r.releases = append(r.releases, release)
	r.runner = &Runner{
		App: app, Runs: 1, Parallel: cmp.Or(r.Parallel, defaultParallel), Timeout: cmp.Or(r.CaseTimeout, defaultCaseTimeout),
		Logger: r.Logger, Clock: r.Clock, NewID: r.NewID,
	}
	if names := ModelNames([]*Job{r.job}); len(names) > 0 {
		models, release, ds := r.Apps.OpenModels(ctx, name, names)
		if models == nil {
			return requestError(ds, "Cannot open the models of judges and simulated users:\n"+strings.Join(ds.StringsWithHints(), "\n"))
		}
		r.releases = append(r.releases, release)
		r.runner.Models = models
	}
	return r.openJournal(Subject{App: app.Name(), Revision: app.Revision()})
}

// openJournal creates the result file in the app's folder, or in a temporary folder if that
// is read-only and the session database can store the result.
func (r *hostRun) openJournal(subject Subject) error {
	folder, err := r.openHistory(subject.App)
	if err == nil {
		r.journal, err = r.job.Begin(folder, subject, r.runner.readClock())
	}
	if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EROFS) || !r.Host.Store().Results.IsAvailable() {
		return err
	}
	temp, tempErr := os.MkdirTemp("", "agenthost-eval-")
	if tempErr != nil {
		return errors.Join(err, tempErr)
	}
	r.databaseOnly = true
	r.releases = append(r.releases, func() { os.RemoveAll(temp) })
	r.journal, err = r.job.Begin(temp, subject, r.runner.readClock())
	return err
}

// openHistory returns the results folder, which must be in the app's folder.
func (r *hostRun) openHistory(app string) (string, error) {
	root, err := r.Apps.Open(app)
	if err != nil {
		return "", err
	}
	defer root.Close()
	if err := root.MkdirAll(filepath.FromSlash(eval.HistoryFolder), 0o755); err != nil {
		return "", fmt.Errorf("creating the results folder: %w", err)
	}
	return filepath.Join(root.Name(), filepath.FromSlash(eval.HistoryFolder)), nil
}

// runCases yields the progress, and stores the result at the end.
func (r *hostRun) runCases(ctx context.Context, yield func(*eval.RunProgress, error) bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	progress := eval.RunProgress{ResultID: r.journal.ResultID(), Total: len(r.job.Cases)}
	if !yield(&progress, nil) {
		return
	}
	results := make(chan *eval.CaseResult)
	log := &forwardingLog{r.journal, results, ctx.Done()}
	defer func() {
		cancel()
		for range results { // ends when all cases have ended
		}
	}()
	var runErr error
	go func() {
		defer close(results)
		defer safe.Recover(func(p *safe.Panic) { runErr = p })
		runErr = r.runUntilTimeout(ctx, log)
	}()
	for result := range results {
		step := progress
		step.Result = result
		if !yield(&step, nil) {
			return
		}
	}
	if ctx.Err() != nil {
		runErr = ctx.Err()
	}
	if runErr == nil {
		runErr = r.storeResult(ctx)
	}
	if runErr != nil {
		yield(nil, runErr)
	}
}

// runUntilTimeout runs the cases. Those that have not ended at the timeout have failed.
func (r *hostRun) runUntilTimeout(ctx context.Context, log ResultLog) error {
	timeout := cmp.Or(r.RunTimeout, defaultRunTimeout)
	errTimeout := fmt.Errorf("the run exceeded its timeout of %s", timeout)
	limited, cancel := context.WithTimeoutCause(ctx, timeout, errTimeout)
	defer cancel()
	err := r.runner.Run(limited, r.job, log)
	if !errors.Is(err, errTimeout) || ctx.Err() != nil {
		return err
	}
	for _, c := range r.job.Cases {
		if log.Count(c.ID) > 0 {
			continue
		}
		result := eval.FailedCase(c, errTimeout.Error())
		result.SetID, result.SetFile = r.job.Set.ID, r.job.Set.ID
		if err := log.Append(result); err != nil {
			return err
		}
	}
	return nil
}

// A forwardingLog appends results to a journal, and then sends them until done is closed.
type forwardingLog struct {
	*Journal
	results chan<- *eval.CaseResult
	done    <-chan struct{}
}

// Append appends and sends a result.
func (l *forwardingLog) Append(result *eval.CaseResult) error {
	if err := l.Journal.Append(result); err != nil {
		return err
	}
	select {
	case l.results <- result:
	case <-l.done:
	}
	return nil
}

// storeResult completes the file, and stores its content in the session database.
func (r *hostRun) storeResult(ctx context.Context) error {
	journal := r.journal
	path, err := journal.Finish()
	if err != nil {
		return err
	}
	r.journal = nil
	err = SaveResult(ctx, r.Host.Store().Results, journal, path)
	if err == nil || errors.Is(err, store.ErrNoResults) {
		return nil
	}
	if r.databaseOnly {
		return fmt.Errorf("storing the result in the session database: %w", err)
	}
	if r.Logger != nil {
		r.Logger.Warn("eval result is stored as a file, but not in the session database", "app", journal.Subject().App, "result", journal.ResultID(), "error", err)
	}
	return nil
}

// SaveResult stores a finished journal's result file in a session database.
func SaveResult(ctx context.Context, results *store.Results, j *Journal, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, store.MaxResultBytes+1)) // Save reports a larger one
	if err != nil {
		return err
	}
	subject := j.Subject()
	result := &store.Result{
		App: subject.App, ID: strings.TrimSuffix(filepath.Base(path), eval.ResultSuffix), SetID: j.header.SetID,
		Revision: subject.Revision, Model: subject.Model, Content: content,
	}
	result.Cases, result.Passed = j.CountPassed()
	return results.Save(ctx, result)
}
