package store_test

import (
	"context"
	"errors"
	"testing"

	"agenthost/pkg/store/memstore"
)

// TestRunContext: a run's context ends with its parent and with the run, whether or not something
// waits for it before, and so do the contexts that derive from it.
func TestRunContext(t *testing.T) {
	boom := errors.New("boom")
	for _, tt := range []struct {
		name  string
		early bool // something waits before the end
		end   func(release func(), cancelParent context.CancelCauseFunc)
		cause error
	}{
		{"released", false, func(release func(), _ context.CancelCauseFunc) { release(); release() }, context.Canceled},
		{"released, waiting", true, func(release func(), _ context.CancelCauseFunc) { release() }, context.Canceled},
		{"parent canceled", false, func(_ func(), cancel context.CancelCauseFunc) { cancel(boom) }, boom},
		{"parent canceled, waiting", true, func(_ func(), cancel context.CancelCauseFunc) { cancel(boom) }, boom},
	} {
		t.Run(tt.name, func(t *testing.T) {
			parent, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			run, release, err := memstore.New(nil).Sessions.Acquire(parent, alice, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer release()
			below := run
			if tt.early {
				var cancelBelow context.CancelFunc
				below, cancelBelow = context.WithCancel(run)
				defer cancelBelow()
			}
			if run.Err() != nil || below.Err() != nil {
				t.Fatalf("the run has ended before: %v, %v", run.Err(), below.Err())
			}
			tt.end(release, cancel)
			for _, ctx := range []context.Context{run, below} {
				if !errors.Is(ctx.Err(), context.Canceled) || !errors.Is(context.Cause(ctx), tt.cause) {
					t.Errorf("the context ended with %v, cause %v, want the cause %v", ctx.Err(), context.Cause(ctx), tt.cause)
				}
				<-ctx.Done()
			}
		})
	}
}
