package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"agenthost/internal/modelcall"
	"agenthost/pkg/model"
)

// RetryOptions configure how failed calls are retried.
type RetryOptions struct {
	// Codes are the HTTP statuses to retry; nil is 429, 500, 502, 503, 504 and 529. Calls
	// without a usable response (refused, truncated, malformed) are always retried; an
	// account without credit, a conversation that is too long, and a turn that the service
	// pauses again and again never.
	Codes []int
	// Attempts is the maximum number of attempts, including the first; 0 is 3.
	Attempts int
	// Initial is the first delay; it doubles with each attempt; 0 is 1 s.
	Initial time.Duration
	// Max is the maximum delay; 0 is 30 s. If the service requests a longer one, the
	// call fails at once.
	Max time.Duration
	// Wait waits, or returns ctx's error; nil uses a timer and adds up to 25 %.
	Wait func(ctx context.Context, d time.Duration) error
	// Logger logs each retry; nil discards logs.
	Logger *slog.Logger
	// Gate lets attempts pass within the model's limits; nil has no limits.
	Gate *Gate
	// Provider is the provider's name. If it is set, errors name the model, the attempt
	// and what to do; see [model.Error].
	Provider string
}

// Retry returns a model that retries failed calls to llm, by the request's policy if it has one. A
// delay requested by the service takes precedence over opts. A call that has yielded a response is
// not retried, nor is one whose context would end before the next attempt. opts may be nil.
func Retry(llm model.LLM, opts *RetryOptions) model.LLM {
	var o RetryOptions
	if opts != nil {
		o = *opts
	}
	if o.Codes == nil {
		o.Codes = []int{
			http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
			http.StatusServiceUnavailable, http.StatusGatewayTimeout, modelcall.OverloadedStatus,
		}
	}
	if o.Attempts == 0 {
		o.Attempts = 3
	}
	if o.Initial == 0 {
		o.Initial = time.Second
	}
	if o.Max == 0 {
		o.Max = 30 * time.Second
	}
	if o.Wait == nil {
		o.Wait = waitWithJitter
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &retryingModel{LLM: llm, opts: o}
}

type retryingModel struct {
	model.LLM
	opts RetryOptions
}

var _ model.SchemaMixer = (*retryingModel)(nil)

// MixesToolsAndSchema reports the model's capability.
func (r *retryingModel) MixesToolsAndSchema() bool {
	return model.CanMixSchema(r.LLM)
}

// Generate retries until a call succeeds or the attempts are used up.
func (r *retryingModel) Generate(ctx context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	r = r.withPolicy(req.Retry)
	return func(yield func(*model.Response, error) bool) {
		for attempt := 1; ; attempt++ {
			started, err := r.attemptCall(ctx, req, yield)
			if err == nil {
				return
			}
			if _, ok := errors.AsType[*gateError](err); ok {
				yield(nil, r.describeError(err, attempt))
				return
			}
			wait, again := r.nextWait(err, attempt)
			if started || !again || ctx.Err() != nil || endsWithin(ctx, wait) {
				yield(nil, r.describeError(err, attempt))
				return
			}
			r.reportWait(ctx, req, err, wait, attempt)
			if err := r.opts.Wait(ctx, wait); err != nil {
				yield(nil, fmt.Errorf("waiting to retry %s: %w", r.Name(), err))
				return
			}
		}
	}
}

// withPolicy returns a model with a request's retries.
func (r *retryingModel) withPolicy(p *model.RetryPolicy) *retryingModel {
	if p == nil {
		return r
	}
	own := *r
	own.opts.Attempts, own.opts.Initial, own.opts.Max = p.Attempts, p.Initial, p.Max
	if p.Codes != nil {
		own.opts.Codes = p.Codes
	}
	return &own
}

// A gateError is the error when a call did not pass the gate. It is not retried.
type gateError struct{ error }

// Unwrap returns the cause.
func (e *gateError) Unwrap() error { return e.error }

// attemptCall calls the model once, within the limits.
func (r *retryingModel) attemptCall(ctx context.Context, req *model.Request, yield func(*model.Response, error) bool) (started bool, err error) {
	g := r.opts.Gate
	if g == nil {
		return forwardResponses(ctx, r.LLM, req, yield)
	}
	onWait := func(cause string, delay time.Duration) {
		if req.OnWait != nil {
			req.OnWait(model.Wait{Model: r.fullName(), Cause: cause, Delay: delay})
		}
	}
	if err := g.AcquireSlot(ctx, onWait); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("waiting for the limits of %s: %w", r.Name(), err)
		}
		return false, &gateError{err}
	}
	tokens := 0
	defer func() { g.ReleaseSlot(tokens) }()
	return forwardResponses(ctx, r.LLM, req, func(resp *model.Response, err error) bool {
		if err == nil && !resp.Partial && resp.UsageMetadata != nil {
			tokens = int(resp.UsageMetadata.TotalTokenCount)
		}
		return yield(resp, err)
	})
}

// fullName returns provider/model.
func (r *retryingModel) fullName() string {
	return (&model.Error{Provider: r.opts.Provider, Model: r.Name()}).Name()
}

// endsWithin reports whether ctx ends before a delay.
func endsWithin(ctx context.Context, delay time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) <= delay
}

// describeError adds the model, the attempt and a hint to a service error.
func (r *retryingModel) describeError(err error, attempt int) error {
	failed, ok := errors.AsType[*model.Error](err)
	if !ok || r.opts.Provider == "" || failed.Provider != "" {
		return err
	}
	own := *failed
	own.Provider, own.Model = r.opts.Provider, r.Name()
	own.Attempt, own.Attempts = attempt, r.opts.Attempts
	if own.URL != "" { // configuration errors have their own
		own.Hint = cmp.Or(own.Hint, hintFor(kindOfFailure(failed), failed))
	}
	return &own
}

// reportWait logs the delay and reports it to the caller.
func (r *retryingModel) reportWait(ctx context.Context, req *model.Request, err error, delay time.Duration, attempt int) {
	r.opts.Logger.WarnContext(ctx, "model call failed, retrying",
		"model", r.Name(), "attempt", attempt, "wait", delay, "error", err)
	if req.OnWait == nil {
		return
	}
	w := model.Wait{
		Model: r.fullName(),
		Cause: "did not answer", Delay: delay, Attempt: attempt + 1, Attempts: r.opts.Attempts,
	}
	if failed, ok := errors.AsType[*model.Error](err); ok && failed.Code != 0 {
		w.Cause = fmt.Sprintf("answered %d", failed.Code)
	}
	req.OnWait(w)
}

// forwardResponses yields one call's responses and returns its error. started reports whether it
// yielded any.
func forwardResponses(ctx context.Context, llm model.LLM, req *model.Request, yield func(*model.Response, error) bool) (started bool, err error) {
	for resp, err := range llm.Generate(ctx, req) {
		if err != nil {
			return started, err
		}
		started = true
		if !yield(resp, nil) {
			return started, nil
		}
	}
	return started, nil
}

// nextWait returns how long to wait after a failed attempt, and whether to retry.
func (r *retryingModel) nextWait(err error, attempt int) (time.Duration, bool) {
	failed, ok := errors.AsType[*model.Error](err)
	if !ok || attempt >= r.opts.Attempts {
		return 0, false
	}
	if failed.Code != 0 && !slices.Contains(r.opts.Codes, failed.Code) || failed.Reason == modelcall.ReasonPaused {
		return 0, false
	}
	switch kind := kindOfFailure(failed); {
	case kind == failCredit, kind == failContextWindow, kind == failOther && failed.Code == 0:
		return 0, false
	}
	if asked, ok := errors.AsType[modelcall.RequestedWait](failed.Err); ok {
		return time.Duration(asked), time.Duration(asked) <= r.opts.Max
	}
	wait := r.opts.Initial << min(attempt-1, 20)
	return min(wait, r.opts.Max), true
}

// waitWithJitter waits for d plus up to 25 %, so that callers that failed together do
// not retry together.
func waitWithJitter(ctx context.Context, d time.Duration) error {
	return modelcall.WaitFor(ctx, d+rand.N(d/4+1))
}
