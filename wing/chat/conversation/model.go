package conversation

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
)

// switchModel prints the models of the agents, or lets one model answer for all of them until the
// conversation ends. Files that are saved meanwhile keep it.
func (t *Conversation) switchModel(ctx context.Context, name string) error {
	if name == "" {
		var names []string
		var add func(a *runtime.AgentInfo)
		add = func(a *runtime.AgentInfo) {
			if a.Model != "" && !slices.Contains(names, a.Model) {
				names = append(names, a.Model)
			}
			for _, child := range a.Agents {
				add(child)
			}
		}
		add(t.opts.Host.App(t.key.App).AgentInfo())
		return t.printLine(strings.Join(names, "\n"))
	}
	opts := *t.opts.Loading
	release := func() {}
	if name != "default" {
		models, releaseModels, ds := t.opts.Env.NewLoader(t.opts.Loading).OpenModels(ctx, t.opts.Dir, []string{name})
		if err := t.opts.Env.WriteDiagnostics(ds); err != nil {
			return err
		}
		if models == nil {
			return fmt.Errorf("model %s is not available: the model stays", name)
		}
		opts.Model, release = models[name], releaseModels
	}
	l := t.opts.Env.NewLoader(&opts)
	loaded, ds := l.LoadFiles(ctx, t.opts.Dir)
	if ds.HasErrors() {
		if err := t.opts.Env.WriteDiagnostics(ds); err != nil {
			return err
		}
	}
	if loaded == nil {
		release()
		return fmt.Errorf("%s has problems: the model stays", t.opts.Dir)
	}
	t.stopWatching()
	t.opts.Host.Swap(loaded.App)
	t.releaseModel()
	t.releaseModel = release
	t.reportedRevision = loaded.App.Revision()
	t.startWatching(l)
	if name == "default" {
		fmt.Fprintln(t.opts.Env.Err, "each agent answers with its own model")
		return nil
	}
	fmt.Fprintf(t.opts.Env.Err, "%s answers for all agents; /model default ends that\n", name)
	return nil
}

// startWatching hot-reloads the app with a loader.
func (t *Conversation) startWatching(l *loader.Loader) {
	ctx, cancel := context.WithCancel(t.watchContext)
	ended := make(chan struct{})
	t.loader = l
	t.stopWatching = func() {
		cancel()
		<-ended
	}
	go func() {
		defer close(ended)
		t.watchFiles(ctx, l)
	}()
}
