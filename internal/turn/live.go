package turn

import (
	"context"
	"errors"

	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

var errNoLive = errors.New("this program does not include live conversations")

// RunLive sends one message in a live conversation with the request's app: see
// [runtime.LiveDriver].
func RunLive(ctx context.Context, host *runtime.Host, req *runtime.RunRequest) runtime.Events {
	return func(yield func(*session.Event, error) bool) {
		app, release, err := host.Acquire(req.App)
		if err != nil {
			yield(nil, err)
			return
		}
		defer release()
		if app.Live() == nil {
			yield(nil, errNoLive)
			return
		}
		app.Live().RunMessage(ctx, host, req)(yield)
	}
}
