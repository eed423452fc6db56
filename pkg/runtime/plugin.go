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

// A Plugin applies to every run of an app (adk-python plugins/base_plugin.py).
// All functions are optional and are called concurrently. Plugins are called
// in the order of the app's list, before the callbacks of agents. The first
// answer stops the chain: later plugins and the agent's callbacks are not
// called. An error ends the run.
type Plugin struct {
	// Name is unique in its app.
	Name string
	// Callbacks are called for every agent of the app, before the agent's own.
	Callbacks Callbacks

	// OnUserMessage may replace the user's message before it is stored. The
	// agent of the context is the root; state writes are part of the user's
	// event.
	OnUserMessage func(ctx context.Context, m *CallbackContext, message *genai.Content) (*genai.Content, error)
	// BeforeRun: an answer becomes an event of the author model instead of the
	// agent's run.
	BeforeRun func(ctx context.Context, inv *Invocation) (*genai.Content, error)
	// OnEvent may replace an event, including partial ones, before it is
	// stored and yielded. The non-zero fields of its answer replace those of
	// the event, except for ID, invocation and time. It must not change the
	// event itself, with which the agent continues.
	OnEvent func(ctx context.Context, inv *Invocation, ev *session.Event) (*session.Event, error)
	// AfterRun is called when the agent has ended without error. It is not
	// called when the consumer stopped the run.
	AfterRun func(ctx context.Context, inv *Invocation) error
	// Close releases the resources of the plugin, within the five seconds of
	// its context. It is called once, after the last run of the app.
	Close func(ctx context.Context) error
}

// pluginCloseTimeout is the time limit for closing each plugin (adk-python
// runners.py).
const pluginCloseTimeout = 5 * time.Second

// checkPlugins requires a unique name for each plugin.
func checkPlugins(plugins []*Plugin) error {
	seen := map[string]bool{}
	for _, p := range plugins {
		if p.Name == "" {
			return errors.New("plugin name is required")
		}
		if seen[p.Name] {
			return fmt.Errorf("duplicate plugin name %s", p.Name)
		}
		seen[p.Name] = true
	}
	return nil
}

// registerPlugins validates the app's plugins and closes them with the app.
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

// collectHooks returns the callbacks of the plugins, followed by the agent's
// own.
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

// closePlugins closes all plugins one after the other.
func (a *App) closePlugins(logger *slog.Logger) {
	for _, p := range a.plugins {
		if p.Close == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), pluginCloseTimeout)
		if err := p.Close(ctx); err != nil {
			logger.Warn("closing plugin failed", "app", a.Name, "plugin", p.Name, "error", err)
		}
		cancel()
	}
}

// runWithPlugins runs an agent with the plugins of the app.
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

// runAgentWithPlugins yields the agent's events as the plugins return them, or
// the one event of a plugin instead. It returns whether the run continues.
func (r *run) runAgentWithPlugins(ctx context.Context, inv *Invocation, yield func(*session.Event, error) bool) bool {
	hookInv := inv.atHook(hookPathBeforeRun)
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
		ev := hookInv.NewEvent()
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

// overlayFields copies the non-zero fields of a struct.
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

// runOnUserMessage lets the plugins replace the user's message.
func (r *run) runOnUserMessage(ctx context.Context, ev *session.Event) error {
	if len(r.app.plugins) == 0 {
		return nil
	}
	// The request owns the delta.
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
		return failf(CodeCallbackFailed, nil, "on_user_message of a plugin returned a message without parts, or with a function call")
	}
	r.user = content
	return nil
}

// askPlugins calls one function of each plugin until one returns an answer. of
// returns nil for a plugin without the function.
func askPlugins[A any](ctx context.Context, inv *Invocation, hook string, of func(*Plugin) func() (*A, error)) (*A, error) {
	for _, p := range inv.run.app.plugins {
		fn := of(p)
		if fn == nil {
			continue
		}
		one := []ownedCallback[func() (*A, error)]{{"plugin " + p.Name, fn}}
		answer, err := firstAnswer(ctx, inv, hook, one, func(f func() (*A, error)) (*A, error) { return f() })
		if err != nil {
			hookErr, _ := asHookError(err)
			return nil, hookErr
		}
		if answer != nil {
			return answer, nil
		}
	}
	return nil, nil
}
