package provider

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"

	"agenthost/pkg/model"
)

// RetryOptions configure the retries of failed calls.
type RetryOptions struct {
	// Codes are the HTTP statuses to retry; nil is 429, 500, 502, 503 and 504. Calls
	// without a usable response (refused, truncated, malformed) are always retried.
	Codes []int
	// Attempts is the maximum number of attempts, including the first; 0 is 3.
	Attempts int
	// Initial is the first delay, which doubles with each attempt; 0 is 1 s.
	Initial time.Duration
	// Max is the maximum delay; 0 is 30 s. If the service requests a longer one, the
	// call fails at once.
	Max time.Duration
	// Wait waits, or returns ctx's error; nil uses a timer and adds up to 25 %.
	Wait func(ctx context.Context, d time.Duration) error
	// Logger logs each retry; nil discards logs.
	Logger *slog.Logger
}

// Retry returns a model that retries failed calls of llm. A delay requested by the
// service takes precedence over opts. A call that has yielded a response is not
// retried. opts may be nil.
func Retry(llm model.LLM, opts *RetryOptions) model.LLM {
	var o RetryOptions
	if opts != nil {
		o = *opts
	}
	if o.Codes == nil {
		o.Codes = []int{
			http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
			http.StatusServiceUnavailable, http.StatusGatewayTimeout,
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

var _ schemaMixer = (*retryingModel)(nil)

// MixesToolsAndSchema reports the capability of the model.
func (r *retryingModel) MixesToolsAndSchema() bool {
	return mixesToolsAndSchema(r.LLM)
}

// Generate retries until a call succeeds or the attempts are used up.
func (r *retryingModel) Generate(ctx context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		for attempt := 1; ; attempt++ {
			started, err := forwardResponses(ctx, r.LLM, req, yield)
			if err == nil {
				return
			}
			wait, again := r.nextWait(err, attempt)
			if started || !again || ctx.Err() != nil {
				yield(nil, err)
				return
			}
			r.opts.Logger.WarnContext(ctx, "model call failed, retrying",
				"model", r.Name(), "attempt", attempt, "wait", wait, "error", err)
			if err := r.opts.Wait(ctx, wait); err != nil {
				yield(nil, fmt.Errorf("waiting to retry %s: %w", r.Name(), err))
				return
			}
		}
	}
}

// forwardResponses yields the responses of one call and returns its error. started
// reports whether it yielded any.
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
	if failed.Code != 0 && !slices.Contains(r.opts.Codes, failed.Code) {
		return 0, false
	}
	if asked, ok := errors.AsType[requestedWait](failed.Err); ok {
		return time.Duration(asked), time.Duration(asked) <= r.opts.Max
	}
	wait := r.opts.Initial << min(attempt-1, 20)
	return min(wait, r.opts.Max), true
}

// waitWithJitter waits for d plus up to 25 %, so that callers that failed together do
// not retry together.
func waitWithJitter(ctx context.Context, d time.Duration) error {
	return waitFor(ctx, d+rand.N(d/4+1))
}

// waitFor waits for d, or returns ctx's error.
func waitFor(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// statusWord returns Google's name of an HTTP status (google.rpc.Code).
func statusWord(code int) string {
	switch code {
	case http.StatusBadRequest:
		return "INVALID_ARGUMENT"
	case http.StatusUnauthorized:
		return "UNAUTHENTICATED"
	case http.StatusForbidden:
		return "PERMISSION_DENIED"
	case http.StatusNotFound:
		return "NOT_FOUND"
	case http.StatusConflict:
		return "ABORTED"
	case http.StatusTooManyRequests:
		return "RESOURCE_EXHAUSTED"
	case 499:
		return "CANCELLED"
	case http.StatusInternalServerError:
		return "INTERNAL"
	case http.StatusNotImplemented:
		return "UNIMPLEMENTED"
	case http.StatusServiceUnavailable:
		return "UNAVAILABLE"
	case http.StatusGatewayTimeout:
		return "DEADLINE_EXCEEDED"
	default:
		return ""
	}
}

// A requestedWait is the delay that a service requests before a retry. It is the cause
// of a [model.Error].
type requestedWait time.Duration

func (w requestedWait) Error() string { return "asked to wait " + time.Duration(w).String() }

// retryAfter parses the Retry-After header: seconds, or a date relative to the
// response's own date. It returns nil if there is none.
func retryAfter(h http.Header) error {
	value := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(value); err == nil && seconds >= 0 {
		return requestedWait(time.Duration(seconds) * time.Second)
	}
	until, err := http.ParseTime(value)
	if err != nil {
		return nil
	}
	sent, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return nil
	}
	return requestedWait(max(0, until.Sub(sent)))
}

// retryDelay reads the delay from Google's error details (google.rpc.RetryInfo). It
// returns nil if there is none.
func retryDelay(details []map[string]any) error {
	for _, d := range details {
		text, _ := d["retryDelay"].(string)
		if wait, err := time.ParseDuration(text); err == nil && wait >= 0 {
			return requestedWait(wait)
		}
	}
	return nil
}

// A schemaMixer is a model that may accept tools and an output schema in one request.
type schemaMixer interface{ MixesToolsAndSchema() bool }

func mixesToolsAndSchema(m model.LLM) bool {
	mixer, ok := m.(schemaMixer)
	return ok && mixer.MixesToolsAndSchema()
}
