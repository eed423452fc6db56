package main

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
func (t *conversation) switchModel(ctx context.Context, name string) error {
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
		add(t.host.App(t.key.App).AgentInfo())
		return t.printLine(strings.Join(names, "\n"))
	}
	opts := *t.options
	release := func() {}
	if name != "default" {
		models, releaseModels, ds := t.env.NewLoader(t.options).OpenModels(ctx, t.dir, []string{name})
		if err := t.env.WriteDiagnostics(ds); err != nil {
			return err
		}
		if models == nil {
			return fmt.Errorf("model %s is not available: the model stays", name)
		}
		opts.Model, release = models[name], releaseModels
	}
	l := t.env.NewLoader(&opts)
	loaded, ds := l.LoadFiles(ctx, t.dir)
	if ds.HasErrors() {
		if err := t.env.WriteDiagnostics(ds); err != nil {
			return err
		}
	}
	if loaded == nil {
		release()
		return fmt.Errorf("%s has problems: the model stays", t.dir)
	}
	t.stopWatching()
	t.host.Swap(loaded.App)
	t.releaseModel()
	t.releaseModel = release
	t.reportedRevision = loaded.App.Revision()
	t.startWatching(l)
	if name == "default" {
		fmt.Fprintln(t.env.Err, "each agent answers with its own model")
		return nil
	}
	fmt.Fprintf(t.env.Err, "%s answers for all agents; /model default ends that\n", name)
	return nil
}

// startWatching hot-reloads the app with a loader.
func (t *conversation) startWatching(l *loader.Loader) {
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
