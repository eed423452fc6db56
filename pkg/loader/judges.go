package loader

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"

	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
)

// OpenModels builds models by the names that the app's agents may use: those under models:,
// PROVIDER/NAME, and names that a provider recognizes. It does not report the app's own problems.
// The models are nil if there are errors; else the caller calls release after the last model call.
func (l *Loader) OpenModels(ctx context.Context, dir string, names []string) (models map[string]model.LLM, release func(), ds spec.Diagnostics) {
	src, ds := l.openAppFolder(dir)
	if src == nil {
		return nil, nil, ds
	}
	defer src.close()
	r := newResolver(l, src)
	r.resolveApp(ctx)
	if !r.ds.HasErrors() {
		r.ds, models = nil, map[string]model.LLM{}
		for _, name := range names {
			models[name] = r.resolveModel(ctx, spec.Text{Value: name, Pos: spec.Pos{File: src.displayDir}})
		}
	}
	if r.ds.HasErrors() {
		r.held.close()
		return nil, nil, r.collectProblems()
	}
	return models, r.held.close, r.collectProblems()
}

// FingerprintModels returns a hash for each model by its name, as [Loader.OpenModels] takes it. The
// hash covers provider, name, address, settings without secrets, and the models that it calls.
// Answers from models with the same fingerprint may replace each other, such as in a cache.
// Scripted, unknown and a program's own models have none.
func (l *Loader) FingerprintModels(ctx context.Context, dir string, names []string) map[string]string {
	src, _ := l.openAppFolder(dir)
	if src == nil {
		return nil
	}
	defer src.close()
	r := newResolver(l, src)
	defer r.held.close()
	r.resolveApp(ctx)
	all := map[string]string{}
	for _, name := range names {
		r.resolveModel(ctx, spec.Text{Value: name, Pos: spec.Pos{File: src.displayDir}})
		h := sha256.New()
		if r.writeFingerprint(h, name, map[string]bool{}) {
			all[name] = hex.EncodeToString(h.Sum(nil))
		}
	}
	return all
}

// writeFingerprint writes what identifies a model and the models that it calls; false means
// that it has no fingerprint.
func (r *modelResolver) writeFingerprint(w io.Writer, name string, seen map[string]bool) bool {
	if seen[name] {
		return true
	}
	seen[name] = true
	plan, ok := r.modelPlans[name]
	if !ok || plan.kind == "scripted" || plan.node == nil {
		return false
	}
	use := r.describeModel(name, plan)
	fmt.Fprintf(w, "%q %q %q\n", use.Provider, use.Model, use.URL)
	unrelated := []string{"price", "limits", "timeouts", "retry", "context"} // they do not change a model's answers
	for _, e := range plan.node.Entries {
		if !slices.Contains(unrelated, e.Key.Value) {
			fmt.Fprintf(w, "%q: ", e.Key.Value)
			writeSettings(w, e.Value)
		}
	}
	for _, other := range slices.Concat(use.Routes, use.Fallbacks) {
		if !r.writeFingerprint(w, other, seen) {
			return false
		}
	}
	return true
}

// writeSettings writes a value. Secrets are written as ***.
func writeSettings(w io.Writer, n *spec.Node) {
	fmt.Fprintf(w, "%d %q %d %d\n", n.Kind, n.Value, len(n.Entries), len(n.Items))
	for _, e := range n.Entries {
		fmt.Fprintf(w, "%q: ", e.Key.Value)
		writeSettings(w, e.Value)
	}
	for _, item := range n.Items {
		writeSettings(w, item)
	}
}

// OpenEvaluator returns a vendor's evaluation service for the metrics that ADK leaves to it, by
// Kinds.Evaluator. It has the client and the credentials that the app's models in that service
// would have. It is nil if that function is or returns nil, and if Options.Model replaces all
// models. The caller calls release after the last service call.
func (l *Loader) OpenEvaluator(ctx context.Context, dir string) (service HostedEvaluator, release func(), err error) {
	none := func() {}
	if l.opts.Model != nil || l.kinds.Evaluator == nil {
		return nil, none, nil
	}
	src, ds := l.openAppFolder(dir)
	if src == nil {
		return nil, none, ds.Err()
	}
	defer src.close()
	service, err = l.kinds.Evaluator(ctx, provider.Env{Lookup: l.opts.Env, App: src.dotenv})
	if service == nil {
		return nil, none, err
	}
	client, end := newResolver(l, src).acquireModelClient(service.Endpoint())
	service.SetHTTP(client)
	return service, func() { _ = end() }, nil
}
