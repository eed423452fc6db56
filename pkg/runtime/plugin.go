package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// A Plugin takes part in every run of an app (adk-python
// plugins/base_plugin.py). All functions are optional and are called by many
// goroutines at once. Plugins are asked in the order of the app's list, before
// the callbacks of agents; the first answer is the last: neither later plugins
// nor the agent are asked then. An error ends the run.
type Plugin struct {
	// Name is unique in its app.
	Name string
	// Callbacks are asked for every agent of the app, before the agent's own.
	Callbacks Callbacks

	// OnUserMessage may replace what the user said before it is stored. The
	// moment's agent is the root; what is written rides on the user's event.
	OnUserMessage func(ctx context.Context, m *CallbackContext, message *genai.Content) (*genai.Content, error)
	// BeforeRun: the answer becomes an event of the author model, in place of
	// the agent's run.
	BeforeRun func(ctx context.Context, inv *Invocation) (*genai.Content, error)
	// OnEvent may replace an event, pieces of streams too, before it is stored
	// and seen. Of its answer, the fields that are not zero take the place of
	// the event's, but for id, invocation and time. The event itself is only
	// read: the agent goes on with it.
	OnEvent func(ctx context.Context, inv *Invocation, ev *session.Event) (*session.Event, error)
	// AfterRun is called when the agent has ended well. After an error, and
	// after a consumer that left, it is not.
	AfterRun func(ctx context.Context, inv *Invocation) error
	// Close ends what the plugin holds open, in the five seconds that its
	// context gives. It is called once, after the last run of the app.
	Close func(ctx context.Context) error
}

// pluginCloseTimeout bounds the closing of each plugin (adk-python runners.py).
const pluginCloseTimeout = 5 * time.Second

// checkPlugins wants a name of its own for each plugin.
func checkPlugins(plugins []*Plugin) error {
	seen := map[string]bool{}
	for _, p := range plugins {
		if p.Name == "" {
			return errors.New("a plugin has no name")
		}
		if seen[p.Name] {
			return fmt.Errorf("there are two plugins named %s", p.Name)
		}
		seen[p.Name] = true
	}
	return nil
}

// registerPlugins checks the app's plugins and has them closed with it.
func (a *App) registerPlugins(opts *AppOptions) error {
	if len(opts.Plugins) == 0 {
		return nil
	}
	a.plugins = slices.Clone(opts.Plugins)
	logger := opts.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	a.refs.onLastRelease = func() {
		a.closePlugins(logger)
		if opts.Close != nil {
			opts.Close()
		}
	}
	return checkPlugins(a.plugins)
}

// collectHooks are the plugins' callbacks and then the agent's own.
func (a *App) collectHooks(agent Agent) *hooks {
	var h *hooks
	for _, p := range a.plugins {
		h = h.withCallbacks("plugin "+p.Name, &p.Callbacks)
	}
	if own, ok := agent.(interface{ agentCallbacks() *Callbacks }); ok {
		h = h.withCallbacks("agent "+agent.Name(), own.agentCallbacks())
	}
	return h
}

// closePlugins closes all of them, one after the other.
func (a *App) closePlugins(logger *slog.Logger) {
	for _, p := range a.plugins {
		if p.Close == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), pluginCloseTimeout)
		if err := p.Close(ctx); err != nil {
			logger.Warn("closing a plugin", "app", a.Name, "plugin", p.Name, "error", err)
		}
		cancel()
	}
}

// runWithPlugins runs an agent, with what the plugins have to say before, during and
// after it.
func (r *run) runWithPlugins(ctx context.Context, inv *Invocation, yield func(*session.Event, error) bool) {
	if len(r.app.plugins) == 0 {
		inv.runAgent(ctx, r.commitThenYield(ctx, yield))
		return
	}
	if !r.runAgentWithPlugins(ctx, inv, r.commitThenYield(ctx, yield)) {
		return
	}
	_, err := askPlugins(ctx, inv, "after_run", func(p *Plugin) func() (*struct{}, error) {
		if p.AfterRun == nil {
			return nil
		}
		return func() (*struct{}, error) { return nil, p.AfterRun(ctx, inv) }
	})
	if err != nil {
		yield(nil, err)
	}
}

// runAgentWithPlugins yields the agent's events as the plugins let them through, or the
// one event of a plugin in the agent's place. It says whether the run goes on.
func (r *run) runAgentWithPlugins(ctx context.Context, inv *Invocation, yield func(*session.Event, error) bool) bool {
	aside := inv.atHook(hookPathBeforeRun)
	if inv.frame != nil && len(inv.hookEvents(hookPathBeforeRun)) > 0 {
		return true
	}
	content, err := askPlugins(ctx, inv, "before_run", func(p *Plugin) func() (*genai.Content, error) {
		if p.BeforeRun == nil {
			return nil
		}
		return func() (*genai.Content, error) { return p.BeforeRun(ctx, inv) }
	})
	if err != nil {
		yield(nil, err)
		return false
	}
	if content != nil {
		ev := aside.NewEvent()
		ev.Author, ev.Content = genai.RoleModel, content
		return yield(ev, nil)
	}
	return inv.runAgent(ctx, func(ev *session.Event, err error) bool {
		if err == nil {
			ev, err = r.runOnEvent(ctx, inv, ev)
		}
		return yield(ev, err) && err == nil
	})
}

// runOnEvent lets the plugins replace an event.
func (r *run) runOnEvent(ctx context.Context, inv *Invocation, ev *session.Event) (*session.Event, error) {
	replaced, err := askPlugins(ctx, inv, "on_event", func(p *Plugin) func() (*session.Event, error) {
		if p.OnEvent == nil {
			return nil
		}
		return func() (*session.Event, error) { return p.OnEvent(ctx, inv, ev) }
	})
	if err != nil || replaced == nil {
		return ev, err
	}
	merged := *ev
	overlayFields(reflect.ValueOf(&merged).Elem(), reflect.ValueOf(replaced).Elem())
	merged.ID, merged.InvocationID, merged.Timestamp, merged.Seq = ev.ID, ev.InvocationID, ev.Timestamp, ev.Seq
	return &merged, nil
}

// overlayFields takes over the fields of a struct that are not zero.
func overlayFields(to, from reflect.Value) {
	for i := range from.NumField() {
		switch f := from.Field(i); {
		case from.Type().Field(i).Anonymous:
			overlayFields(to.Field(i), f)
		case !f.IsZero():
			to.Field(i).Set(f)
		}
	}
}

// runOnUserMessage lets the plugins replace what the user said.
func (r *run) runOnUserMessage(ctx context.Context, ev *session.Event) error {
	if len(r.app.plugins) == 0 {
		return nil
	}
	// The delta belongs to whoever asked for the run.
	ev.Actions.StateDelta = maps.Clone(ev.Actions.StateDelta)
	m := (&Invocation{run: r, node: r.app.rootNode}).newCallbackContext(&ev.Actions)
	content, err := askPlugins(ctx, m.Invocation, "on_user_message", func(p *Plugin) func() (*genai.Content, error) {
		if p.OnUserMessage == nil {
			return nil
		}
		return func() (*genai.Content, error) { return p.OnUserMessage(ctx, m, r.user) }
	})
	if err != nil || content == nil {
		return err
	}
	if len(content.Parts) == 0 || len(model.CallsOf(content)) > 0 {
		return failf(CodeCallbackFailed, nil, "on_user_message of a plugin gave a message without parts, or with a function call")
	}
	r.user = content
	return nil
}

// askPlugins asks one function of each plugin until one answers. of is nil
// where a plugin has none.
func askPlugins[A any](ctx context.Context, inv *Invocation, hook string, of func(*Plugin) func() (*A, error)) (*A, error) {
	for _, p := range inv.run.app.plugins {
		fn := of(p)
		if fn == nil {
			continue
		}
		one := []ownedCallback[func() (*A, error)]{{"plugin " + p.Name, fn}}
		answer, err := firstAnswer(ctx, inv, hook, one, func(f func() (*A, error)) (*A, error) { return f() })
		if err != nil {
			told, _ := asHookError(err)
			return nil, told
		}
		if answer != nil {
			return answer, nil
		}
	}
	return nil, nil
}
