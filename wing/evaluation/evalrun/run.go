package evalrun

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"agenthost/internal/safe"
	"agenthost/pkg/runtime"
	"agenthost/wing/evaluation/eval"
)

// A Runner runs cases on an app.
type Runner struct {
	// App is the app. The caller closes it after the last run.
	App *runtime.App
	// Models are the models of judges and simulated users; see [ModelNames].
	Models Models
	// Service is the evaluation service of Vertex AI; nil without it.
	Service eval.Service
	// Custom are the metrics that the Go program has registered.
	Custom map[string]eval.MeasureFunc
	// Runs is how often each case runs, Parallel how many cases run at once. Both are at
	// least 1.
	Runs, Parallel int
	// Timeout limits the conversation of a case.
	Timeout time.Duration
	// Cache has answers of judges, for models with a fingerprint; see
	// FingerprintModels of package loader. Nil requests all answers.
	Cache        *AnswerCache
	Fingerprints map[string]string
	Logger       *slog.Logger
	// Clock and NewID provide the times of results, and the IDs of sessions and events; nil
	// for time.Now and random UUIDs.
	Clock func() time.Time
	NewID func() string
}

// A ResultLog receives the results of runs as they come. It is used concurrently.
type ResultLog interface {
	// Count returns how many runs of a case have a result.
	Count(caseID string) int
	// Append adds the result of a run.
	Append(result *eval.CaseResult) error
}

// Run runs the cases of a job that the log does not have yet, and appends the results
// in the order in which they end. It returns when all have ended, or with the first error
// of the log. When ctx ends, cases that are running are not recorded.
func (r *Runner) Run(ctx context.Context, job *Job, log ResultLog) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slots := make(chan struct{}, r.Parallel)
	var wg sync.WaitGroup
	for _, c := range job.Cases {
		for number := log.Count(c.ID); number < r.Runs; number++ {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				wg.Wait()
				return context.Cause(ctx)
			}
			wg.Go(func() {
				defer func() { <-slots }()
				defer safe.Recover(func(p *safe.Panic) { cancel(p) })
				result := r.runSafely(ctx, job, c, number)
				if ctx.Err() != nil {
					return
				}
				if err := log.Append(result); err != nil {
					cancel(err)
				}
			})
		}
	}
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

func (r *Runner) readClock() time.Time {
	if r.Clock == nil {
		return time.Now()
	}
	return r.Clock()
}

func (r *Runner) newID() string {
	if r.NewID == nil {
		return newUUID()
	}
	return r.NewID()
}

// runSafely runs a case; a panic fails it.
func (r *Runner) runSafely(ctx context.Context, job *Job, c *eval.Case, number int) (result *eval.CaseResult) {
	if p := safe.Call(func() { result = r.runCase(ctx, job, c, number) }); p != nil {
		result = eval.FailedCase(c, p.Error())
		result.SetID, result.SetFile = job.Set.ID, job.Set.ID
	}
	return result
}

// newUUID returns a random UUID of version 4.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
