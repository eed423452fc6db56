package live

import (
	"cmp"
	"context"
	"math/rand/v2"

	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// A RunRequest describes one live run.
type RunRequest struct {
	App, UserID, SessionID string
	// Protocol names the client's door in outcomes; empty means run_live.
	Protocol string
	// Requests are the client's requests. The run ends when the queue is closed and empty.
	Requests *Queue
	// Writer authors state deltas; the zero value is a client.
	Writer session.Writer
	// CustomMetadata is added to every event.
	CustomMetadata map[string]any
	// Config replaces the app's config; nil keeps it.
	Config *runtime.RunConfig
	// CreateSession creates the session when it does not exist.
	CreateSession bool
	// Drain, when it is closed, ends the run after the current turn. Nil never does.
	Drain <-chan struct{}
}

// Run runs a live conversation: the client and the model send whenever they like. It has one
// invocation, and holds the session until it ends, so that the session's other runs fail with
// [runtime.CodeSessionBusy]. Events are yielded as by [runtime.Host.Run]: stored first, except for
// partial events and the model's audio, video and images, which are not stored. The client's texts
// are stored and not yielded.
//
// The run ends when the client closes the queue or sends a close, when the agent has ended, when
// Drain is closed and the current turn is over, or with an error. An invalid client request is
// answered by a partial event with an error code, and the run continues.
//
// The model is connected again when a connection ends and run_config has session_resumption;
// see [IsRecoverable] and [Reconnects]. Rules: adk-python runners.py run_live;
// docs/live.md lists the differences.
func Run(ctx context.Context, host *runtime.Host, req *RunRequest) runtime.Events {
	return func(yield func(*session.Event, error) bool) {
		if req.Requests == nil {
			yield(nil, invalidRequest("a live run requires a request queue"))
			return
		}
		l := &liveRun{req: req, out: NewOutbox(), reconnects: Reconnects{Random: rand.Float64}}
		defer l.stopLimits()
		host.RunTwoWay(ctx, &runtime.RunRequest{
			App: req.App, UserID: req.UserID, SessionID: req.SessionID, Protocol: cmp.Or(req.Protocol, "run_live"), Writer: req.Writer,
			CustomMetadata: req.CustomMetadata, Config: req.Config, CreateSession: req.CreateSession,
		}, l.runAgent)(yield)
	}
}

// A liveRun is what a live run's agents share.
type liveRun struct {
	req *RunRequest
	// config is the run's; limiter and recorder follow it. They are nil before the first agent
	// starts, and recorder also if run_config does not save audio.
	config   *runtime.RunConfig
	limiter  *liveLimiter
	recorder *Recorder
	// out survives connections and transfers.
	out        *Outbox
	reconnects Reconnects
	// draining reports that the run ends after the current turn; closed that the client
	// has ended it.
	draining, closed bool
	// reportedMedia reports that the client was notified about dropped blobs.
	reportedMedia bool
	// partial is the size of the turn's partial contents.
	partial int
	// connections counts the run's connections, and dropped the media reported as dropped.
	connections, dropped int
}

func (l *liveRun) stopLimits() {
	if l.limiter != nil {
		l.limiter.timer.Stop()
	}
}

// runAgent holds one LLM agent's part of the conversation.
func (l *liveRun) runAgent(ctx context.Context, t *runtime.TwoWayTurn) {
	if l.config == nil { // the first agent starts
		config := t.Config()
		l.config, l.limiter = &config, newLiveLimiter(config.Live)
		if config.SaveLiveBlob || config.SaveLiveAudio {
			l.recorder = &Recorder{}
		}
	}
	a := &liveAgent{TwoWayTurn: t, liveRun: l, made: map[string]madeCall{}, earlier: map[string]*earlierCall{}}
	if err := a.prepareLink(ctx); err != nil {
		a.Fail(err)
		return
	}
	a.runLoop(ctx)
	if a.closed || a.draining {
		a.EndRun()
	}
	if !a.IsDone() && a.target != "" {
		a.TransferTo(ctx, a.target)
	}
}
