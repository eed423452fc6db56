package replay

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"agenthost/internal/safe"
	"agenthost/internal/turn"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/memstore"
)

const (
	// turnTimeout limits one turn's time, which waits for nothing.
	turnTimeout = 10 * time.Second
	// liveTurnTimeout is for a turn that waits for its models.
	liveTurnTimeout = 5 * time.Minute
)

// A player replays turns on one app. It is safe for concurrent use.
type player struct {
	app   *runtime.App
	tools *toolPlayer
	rules *Rules
	// timeout limits a turn.
	timeout time.Duration
}

// A past is what came before a turn.
type past struct {
	key session.Key
	// initial is the new session's state, and events are those before the turn.
	initial map[string]any
	events  []*session.Event
	files   *files
}

// playTurn replays a turn, and returns its steps and the first call without a recorded answer. An
// error means that the turn cannot be replayed at all.
func (p *player) playTurn(ctx context.Context, before *past, t *turn.Recorded) (steps map[string][]step, lacks string, err error) {
	if panicked := safe.Call(func() { steps, lacks, err = p.runTurn(ctx, before, t) }); panicked != nil {
		return nil, "", fmt.Errorf("the replay panicked, which is a bug in agenthost: %s", panicked)
	}
	return steps, lacks, err
}

func (p *player) runTurn(ctx context.Context, before *past, t *turn.Recorded) (map[string][]step, string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.timeout, fmt.Errorf("the replayed turn exceeded the limit of %s", p.timeout))
	defer cancel()
	st := memstore.New(nil)
	defer st.Close()
	if err := before.restoreSession(ctx, st, t.User); err != nil {
		return nil, "", err
	}
	var ids, ticks atomic.Int64
	host := runtime.NewHost(st, &runtime.Options{ // not closed: it would close the app
		NewID:   func() string { return fmt.Sprintf("replay-%d", ids.Add(1)) },
		Clock:   func() time.Time { return t.User.Timestamp.Add(time.Duration(ticks.Add(1)) * time.Microsecond) },
		RunTool: p.tools.RunTool,
	})
	host.Swap(p.app)
	record := recordTape(t, before.events)
	delta := withoutMetadata(t.User.Actions.StateDelta)
	streaming := false
	req := &runtime.RunRequest{
		App: before.key.App, UserID: before.key.User, SessionID: before.key.ID, Message: t.User.Content,
		StateDelta: delta, Writer: session.WriterAdmin, Streaming: &streaming, Agent: findEntry(t),
	}
	var events []*session.Event
	var failed *runtime.RunError
	for ev, err := range host.Run(context.WithValue(ctx, tapeKey{}, record), req) {
		if err != nil {
			failed = runtime.AsRunError(err)
		} else if !ev.Partial {
			events = append(events, ev)
		}
	}
	if ctx.Err() != nil {
		return nil, "", context.Cause(ctx)
	}
	steps := p.rules.listSteps(events)
	if n := len(events); failed != nil && (n == 0 || events[n-1].ErrorCode == "") {
		steps[""] = append(steps[""], step{kind: stepError, name: string(failed.Code)})
	}
	return steps, record.lacks, nil
}

// findEntry returns the entry that a client has called with the message, see [runtime.NewToolEntry]; empty
// for a message to an agent.
func findEntry(t *turn.Recorded) string {
	if len(t.Events) > 0 {
		if _, isEntry := runtime.ParseEntryName(t.Events[0].Author); isEntry {
			return t.Events[0].Author
		}
	}
	return ""
}

// restoreSession stores a session as it was before a message.
func (b *past) restoreSession(ctx context.Context, st *store.Store, message *session.Event) error {
	sess, err := st.Sessions.Create(ctx, b.key, b.initial)
	if err != nil {
		return err
	}
	copied := make([]*session.Event, 0, len(b.events))
	for _, ev := range b.events {
		own := *ev
		own.Seq, own.Provenance.Revision = 0, "" // the replay chooses the revision
		copied = append(copied, &own)
	}
	if err := b.files.restoreFiles(ctx, st, b.key, message); err != nil {
		return err
	}
	return st.Sessions.AppendAll(ctx, sess, copied)
}

// withoutMetadata returns a state delta without the session's title and other metadata.
func withoutMetadata(delta map[string]any) map[string]any {
	if _, ok := delta[session.MetadataKey]; !ok {
		return delta
	}
	own := map[string]any{}
	for k, v := range delta {
		if k != session.MetadataKey {
			own[k] = v
		}
	}
	return own
}
