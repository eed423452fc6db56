package modelapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	"agenthost/internal/modelcall"
	"agenthost/pkg/provider"
)

const (
	defaultFirstByte = 5 * time.Minute
	defaultIdle      = 2 * time.Minute
)

// A silenceError ends a call whose service was silent for too long.
type silenceError struct {
	limit  time.Duration
	before string // what did not arrive
}

func (e *silenceError) Error() string {
	return fmt.Sprintf("timeout after %s without %s", e.limit, e.before)
}

// StatusOfSilence returns the timeout status if err is a timeout, or else "".
func StatusOfSilence(err error) string {
	if _, ok := errors.AsType[*silenceError](err); ok {
		return modelcall.StatusWord(http.StatusGatewayTimeout)
	}
	return ""
}

// A timeoutTransport cancels calls whose service is silent, with a [*silenceError]. The time that a
// body's reader takes between two reads does not count.
type timeoutTransport struct {
	base http.RoundTripper // nil is http.DefaultTransport
	opts provider.TimeoutOptions
}

// NewTimeoutTransport returns a transport with the timeouts; a nil base is
// [http.DefaultTransport].
func NewTimeoutTransport(base http.RoundTripper, opts provider.TimeoutOptions) *timeoutTransport {
	opts.FirstByte = cmp.Or(opts.FirstByte, defaultFirstByte)
	opts.Idle = cmp.Or(opts.Idle, defaultIdle)
	for _, limit := range []*time.Duration{&opts.FirstByte, &opts.Idle} {
		if *limit < 0 {
			*limit = math.MaxInt64
		}
	}
	return &timeoutTransport{base, opts}
}

// RoundTrip sends one request.
func (t *timeoutTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	base := t.base
	if base == nil {
		base = http.DefaultTransport
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	body := &timeoutBody{cancel: cancel, cause: func() error { return context.Cause(ctx) }, idle: t.opts.Idle}
	body.startTimer(t.opts.FirstByte, "a first byte")
	resp, err := base.RoundTrip(req.WithContext(ctx))
	if err != nil {
		body.timer.Stop()
		err = body.explainError(err)
		cancel(nil)
		return nil, err
	}
	body.ReadCloser = resp.Body
	resp.Body = body
	return resp, nil
}

// A timeoutBody is a response body whose reads have a limit.
type timeoutBody struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
	cause  func() error // why the call was canceled
	idle   time.Duration
	// timer runs until the first byte has arrived, and then during each read.
	timer   *time.Timer
	started bool
}

func (b *timeoutBody) startTimer(limit time.Duration, before string) {
	cancel := b.cancel
	b.timer = time.AfterFunc(limit, func() { cancel(&silenceError{limit, before}) })
}

// Read reads from the response's body.
func (b *timeoutBody) Read(p []byte) (int, error) {
	if b.started {
		b.timer.Reset(b.idle)
	}
	n, err := b.ReadCloser.Read(p)
	if b.started || n > 0 || err != nil {
		b.timer.Stop()
	}
	if err != nil {
		return n, b.explainError(err)
	}
	if n > 0 && !b.started {
		b.started = true
		b.startTimer(b.idle, "further data")
		b.timer.Stop()
	}
	return n, nil
}

// explainError returns the silence that ended the call, or else err.
func (b *timeoutBody) explainError(err error) error {
	if silence, ok := errors.AsType[*silenceError](b.cause()); ok && !errors.Is(err, io.EOF) {
		return silence
	}
	return err
}

// Close closes the response's body.
func (b *timeoutBody) Close() error {
	b.timer.Stop()
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}
