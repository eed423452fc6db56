package store

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"agenthost/internal/codec"
	"agenthost/pkg/session"
	"agenthost/pkg/store/backend"
)

// Result limits.
const (
	// MaxResultBytes limits a result, and MaxPackedResultBytes its compressed form: engines limit
	// value sizes.
	MaxResultBytes       = 64 << 20
	MaxPackedResultBytes = 8 << 20
	// keepResults is how many results are kept per app.
	keepResults = 200
)

// ErrNoResults is the error from a store without a backend for results.
var ErrNoResults = errors.New("the session database does not support evaluation results")

// Results stores evaluation results next to the sessions: the newest 200 per app. It does not read
// their content. It is safe for concurrent use.
type Results struct {
	backend ResultBackend
	clock   func() time.Time
}

// A Result is an eval set's result.
type Result struct {
	App, ID, SetID string
	// Revision is the app's, Model the model that replaced its models; both may be empty.
	Revision, Model string
	// Cases counts the case runs that passed or failed, Passed the former. Both are 0 if they are unknown.
	Cases, Passed int64
	// Stored is the time when it was stored.
	Stored time.Time
	// Content is the result's JSON; nil in lists. A reader validates it.
	Content []byte
}

// A ResultBackend stores result rows. Their content is compressed. It is safe for concurrent use.
type ResultBackend interface {
	// PutResult stores a result, instead of one with its ID, and deletes all but the app's newest
	// keep results.
	PutResult(ctx context.Context, r *Result, keep int) error
	// GetResult returns ErrNotFound for a missing result.
	GetResult(ctx context.Context, app, id string) (*Result, error)
	// ListResults returns an app's results without content, newest first.
	ListResults(ctx context.Context, app string) ([]*Result, error)
	// DeleteResult deletes a result. A missing result is not an error.
	DeleteResult(ctx context.Context, app, id string) error
	// Close closes the backend, unless it shares the sessions' engine.
	Close() error
}

// IsAvailable reports whether there is a backend for results: without one, Save fails.
func (r *Results) IsAvailable() bool { return r.backend != (noResults{}) }

// Save stores a result, instead of one with its ID, and sets the time. It returns
// [ErrNoResults] if the store has no backend for results.
func (r *Results) Save(ctx context.Context, result *Result) error {
	for _, field := range []struct{ name, value string }{
		{"app name", result.App}, {"result ID", result.ID}, {"eval set ID", result.SetID}, {"revision", result.Revision}, {"model", result.Model},
	} {
		if err := codec.CheckText(field.name, field.value, codec.MaxUser); err != nil {
			return err
		}
	}
	if result.Passed < 0 || result.Passed > result.Cases {
		return fmt.Errorf("passed cases of result %s must be from 0 to %d, got %d: %w", result.ID, result.Cases, result.Passed, session.ErrInvalid)
	}
	if result.App == "" || result.ID == "" {
		return fmt.Errorf("app and ID of a result are required: %w", session.ErrInvalid)
	}
	packed, err := packContent(result.Content)
	if err != nil {
		return fmt.Errorf("storing result %s: %w", result.ID, err)
	}
	row := *result
	row.Stored, row.Content = r.clock().UTC().Truncate(time.Microsecond), packed
	return r.backend.PutResult(ctx, &row, keepResults)
}

// Get returns a result with its content. A missing one is ErrNotFound.
func (r *Results) Get(ctx context.Context, app, id string) (*Result, error) {
	if !codec.IsStorable(app, id) {
		return nil, backend.ResultNotFound(app, id)
	}
	row, err := r.backend.GetResult(ctx, app, id)
	if err != nil {
		return nil, err
	}
	result := *row
	if result.Content, err = unpackContent(row.Content); err != nil {
		return nil, fmt.Errorf("reading result %s of app %s: %w", id, app, err)
	}
	return &result, nil
}

// List returns an app's results without content, newest first.
func (r *Results) List(ctx context.Context, app string) ([]*Result, error) {
	if !codec.IsStorable(app) {
		return nil, ctx.Err()
	}
	return r.backend.ListResults(ctx, app)
}

// Delete deletes a result. A missing result is not an error.
func (r *Results) Delete(ctx context.Context, app, id string) error {
	if !codec.IsStorable(app, id) {
		return ctx.Err()
	}
	return r.backend.DeleteResult(ctx, app, id)
}

func packContent(content []byte) ([]byte, error) {
	if len(content) > MaxResultBytes {
		return nil, fmt.Errorf("content exceeds the limit of %d bytes: %w", MaxResultBytes, session.ErrInvalid)
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(content); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	if b.Len() > MaxPackedResultBytes {
		return nil, fmt.Errorf("compressed content exceeds the limit of %d bytes: %w", MaxPackedResultBytes, session.ErrInvalid)
	}
	return b.Bytes(), nil
}

// unpackContent limits what a stored value may expand to.
func unpackContent(packed []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(z, MaxResultBytes+1))
	if err != nil {
		return nil, err
	}
	if len(content) > MaxResultBytes {
		return nil, fmt.Errorf("content exceeds the limit of %d bytes: %w", MaxResultBytes, session.ErrInvalid)
	}
	return content, nil
}

// noResults is the backend in a store without one.
type noResults struct{}

func (noResults) PutResult(context.Context, *Result, int) error { return ErrNoResults }

func (noResults) GetResult(_ context.Context, app, id string) (*Result, error) {
	return nil, backend.ResultNotFound(app, id)
}

func (noResults) ListResults(context.Context, string) ([]*Result, error) { return nil, nil }

func (noResults) DeleteResult(context.Context, string, string) error { return nil }

func (noResults) Close() error { return nil }
