package loader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
	"agenthost/wing/apptest"
	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalfile"
	"agenthost/wing/evaluation/evalrun"
)

// testSuffix is the suffix of test files.
const testSuffix = ".test.yaml"

// A Suite holds the validated tests of an app, and opens the app for them.
type Suite struct {
	// App is the name of the app, Revision the revision that was validated.
	App, Revision string
	// Tests are in the order of their files and positions.
	Tests []*apptest.Test
	// UnmockedTools are the tools that run in a test without a stub: they use only the session.
	UnmockedTools []string

	loader *Loader
	dir    string
	names  *apptest.Names
}

// Suite reads the tests of an app. The diagnostics are those of the app and its tests.
// It returns nil if there are errors.
func (l *Loader) Suite(ctx context.Context, dir string) (*Suite, spec.Diagnostics) {
	var suite *Suite
	got := l.loadApp(ctx, dir, nil, func(ctx context.Context, r *resolver) { suite = r.readTests(ctx) })
	if got.app == nil {
		return nil, got.ds
	}
	got.app.Close()
	return suite, got.ds
}

// DecodeTests validates text as a test file of the suite.
func (s *Suite) DecodeTests(file string, text []byte) ([]*apptest.Test, spec.Diagnostics) {
	n, ds := spec.Parse(file, text)
	if ds.HasErrors() {
		return nil, ds
	}
	tests, more := apptest.Decode(n, s.names)
	return tests, append(ds, more...)
}

// Run runs one test with its own app, store and host. Tests may run in parallel.
func (s *Suite) Run(ctx context.Context, t *apptest.Test) *apptest.Result {
	r := t.Run(ctx, s.openApp)
	r.App = cmp.Or(r.App, s.App)
	return r
}

// openApp loads the app in the environment of a test.
func (s *Suite) openApp(ctx context.Context, env *apptest.TestEnv) (*runtime.App, error) {
	opts := s.loader.opts
	opts.Model, opts.HTTP, opts.Offline, opts.WrapTool = env.Model, env.HTTP, true, nil
	app, ds := New(s.loader.kinds, &opts).Load(ctx, s.dir)
	if app == nil {
		return nil, ds.Err()
	}
	if app.Revision() != s.Revision {
		app.Close()
		return nil, fmt.Errorf("the files of app %s changed during its tests", s.App)
	}
	return app, nil
}

// checkTests reads the tests and eval files of an app for their problems.
func checkTests(ctx context.Context, r *resolver) {
	r.readTests(ctx)
	r.checkEvals(ctx)
	if jobs, _ := r.planGatedEvals(ctx, false); jobs != nil {
		r.resolveJudges(ctx, jobs)
	}
}

// readTests reads the tests of an app, whose agents may be unknown.
func (r *resolver) readTests(ctx context.Context) *Suite {
	s := &Suite{App: r.src.name, Revision: r.src.computeRevision(), loader: r.loader, dir: r.src.dir}
	s.names = r.collectTestNames(ctx)
	s.UnmockedTools = listUnmockedTools(r.app.root)
	for _, file := range r.findFiles(ctx, "tests", testSuffix) {
		n, ds := r.src.readDocument(file)
		if n != nil {
			tests, more := apptest.Decode(n, s.names)
			s.Tests = append(s.Tests, tests...)
			ds = append(ds, more...)
		}
		r.report(ds...)
	}
	return s
}

// findFiles lists the files with one of the suffixes in folders that are not hidden. An
// unreadable file is an error, since nothing else would show that its tests do not run.
func (r *resolver) findFiles(ctx context.Context, what string, suffixes ...string) []string {
	root, err := filepath.EvalSymlinks(r.src.dir)
	var files []string
	w := newWalker(root)
	w.file = func(_, rel string, _ fs.FileInfo) {
		file := filepath.ToSlash(rel)
		switch {
		case !slices.ContainsFunc(suffixes, func(suffix string) bool { return strings.HasSuffix(file, suffix) }):
		case r.src.fileExists(file):
			files = append(files, file)
		case !isIgnored(path.Base(file)): // the lock file of an editor may be a hidden dangling link
			r.reportIrregularFile(file)
		}
	}
	if err == nil {
		err = w.walkFolder(ctx, root, "", 0)
	}
	if limit := (*limitError)(nil); errors.As(err, &limit) {
		r.report(limit.toDiagnostic(r.src.displayDir))
	} else if err != nil {
		r.report(spec.Diagnostic{Pos: spec.Pos{File: r.src.displayDir}, Rule: "file", Message: "cannot find " + what + ": " + formatOSError(err)})
	}
	return files
}

func (r *resolver) collectTestNames(ctx context.Context) *apptest.Names {
	names := &apptest.Names{File: func(at spec.Text) (*spec.Node, spec.Diagnostics) { return r.readModelFile(ctx, at) }}
	if r.app.root == nil || r.ds.HasErrors() {
		return names
	}
	dynamic := false
	names.Agents, names.Tools = []string{}, []string{}
	if typed := r.app.stateSchema(); typed != nil {
		names.State = typed.Samples()
	}
	r.app.root.visitTree(func(p *resolvedAgent) {
		if _, ok := p.modelName(); ok {
			names.Agents = append(names.Agents, p.name)
		}
		names.Tools = append(names.Tools, modeTools(p)...)
		for _, t := range p.tools {
			names.Tools = append(names.Tools, t.names...)
			dynamic = dynamic || t.isDynamic()
		}
	})
	if dynamic {
		names.Tools = nil
	}
	return names
}

// listUnmockedTools returns the tools that run in tests without a stub: expressions,
// the built-in tools except memory search, and the tools of the runtime.
func listUnmockedTools(root *resolvedAgent) []string {
	own := []string{"set_model_response", "transfer_to_agent", "finish_task"}
	if root == nil {
		return own
	}
	builtins := tool.Builtins()
	root.visitTree(func(p *resolvedAgent) {
		own = append(own, modeTools(p)...)
		for _, t := range p.tools {
			_, builtin := builtins.Lookup(t.kind)
			if t.kind == "expr" || builtin && t.kind != "load_memory" {
				own = append(own, t.names...)
			}
		}
	})
	return own
}

// checkEvals reports the problems of eval files, of ADK's eval sets and test files, and of
// their configs.
func (r *resolver) checkEvals(ctx context.Context) {
	isUsable := r.app.root != nil && !r.ds.HasErrors()
	own := r.collectTestNames(ctx)
	names := r.metricNames()
	names.Tools, names.State = own.Tools, own.State
	if names.Tools != nil {
		names.Tools = append(slices.Clone(names.Tools), "transfer_to_agent", "set_model_response", "adk_request_confirmation", "adk_request_credential")
	}
	files := r.findFiles(ctx, "eval sets", evalfile.Suffix, evalfile.SetSuffix, eval.SetSuffix, eval.TestSuffix, eval.ConfigFile)
	configs := r.readEvalConfigs(files, names)
	var judges []spec.Text
	for _, file := range files {
		names.Config = configs[path.Dir(file)]
		if strings.HasSuffix(file, evalfile.Suffix) {
			n, ds := r.src.parseFile(file) // without references, as it runs
			if n != nil && !ds.HasErrors() {
				f, more := evalfile.Decode(n, names)
				ds = append(ds, more...)
				judges = append(judges, f.Models...)
			}
			r.report(ds...)
			continue
		}
		if name := path.Base(file); name == eval.ConfigFile || !strings.HasSuffix(name, eval.ConfigFile) {
			models, ds := r.checkADKFile(file, names)
			judges = append(judges, models...)
			r.report(ds...)
		}
	}
	if !isUsable {
		return // names of models may be unknown because of other problems
	}
	for _, name := range judges {
		r.resolveModel(ctx, name)
	}
}

// readEvalConfigs reads the test_config.json of folders. One with problems, which are reported
// elsewhere, is empty.
func (r *resolver) readEvalConfigs(files []string, names *evalfile.Names) map[string]*eval.Config {
	configs := map[string]*eval.Config{}
	for _, file := range files {
		if path.Base(file) != eval.ConfigFile {
			continue
		}
		config := &eval.Config{}
		if src, err := r.src.readEvalFile(file); err == nil {
			if read, ds := evalfile.ReadConfig(file, src, names); !ds.HasErrors() {
				config = read
				if config.Criteria == nil {
					config.Criteria = eval.DefaultConfig().Criteria
				}
			}
		}
		configs[path.Dir(file)] = config
	}
	return configs
}

// checkADKFile returns the problems of a file of ADK.
func (r *resolver) checkADKFile(file string, names *evalfile.Names) ([]spec.Text, spec.Diagnostics) {
	at := r.src.displayPath(file)
	src, err := r.src.readEvalFile(file)
	if isLimitError(err) {
		return nil, spec.Diagnostics{r.src.budget.exceeded.toDiagnostic(r.src.displayDir)}
	}
	if err != nil {
		return nil, spec.Diagnostics{{Pos: spec.Pos{File: at}, Rule: "file", Message: "cannot read the file: " + formatOSError(err)}}
	}
	if path.Base(file) == eval.ConfigFile {
		config, ds := evalfile.ReadConfig(at, src, names)
		if ds.HasErrors() {
			return nil, ds
		}
		return evalfile.ModelsOf(at, src, config), ds
	}
	_, ds := evalfile.ReadSet(at, src, nil, names)
	return nil, ds
}

// casePlaces are the positions of cases by SET:CASE.
type casePlaces map[string]spec.Pos

// planGatedEvals reads the eval sets that the gate of the app runs, and reports their
// problems. The jobs are nil if there are errors, or if evals do not gate the app. vertex
// reports that the evaluation service of Vertex AI is available.
func (r *resolver) planGatedEvals(ctx context.Context, vertex bool) ([]*evalrun.Job, casePlaces) {
	options := r.app.doc.reloadOptions()
	if r.ds.HasErrors() || options == nil || !slices.Contains(options.Gate, runtime.GateEvals) {
		return nil, nil
	}
	at := r.app.appNode.Get("reload").Get("gate")
	if named := r.app.appNode.Get("reload").Get("eval_sets"); named != nil {
		at = named
	}
	places := casePlaces{}
	jobs, err := evalrun.PlanSets(r.readEvalSets(ctx, places), eval.ParseSelections(options.EvalSets), &evalrun.PlanOptions{Custom: r.metricNames().Metrics, Vertex: vertex, Read: r.readEvalConfig})
	problems := spec.Diagnostics(nil)
	switch {
	case r.ds.HasErrors():
		return nil, nil
	case errors.Is(err, evalrun.ErrNoSets):
		r.report(at.Errorf("value", "evals gate the app, which has no eval set").WithHint("write one in a file such as first.eval.yaml, or remove evals from gate"))
		return nil, nil
	case errors.As(err, &problems):
		r.report(problems...)
		return nil, nil
	case err != nil:
		r.report(at.Errorf("value", "%s", err))
		return nil, nil
	}
	return jobs, places
}

// resolveJudges returns the models of judges and simulated users. With a budget of cost,
// it rejects models of the app and judges that have no price.
func (r *resolver) resolveJudges(ctx context.Context, jobs []*evalrun.Job) evalrun.Models {
	at := r.app.appNode.Get("reload").Get("gate")
	models := evalrun.Models{}
	var unpriced []string
	for _, name := range evalrun.ModelNames(jobs) {
		models[name] = r.resolveModel(ctx, spec.Text{Value: name, Pos: at.Pos})
		if models[name] != nil && r.loader.opts.Model == nil && !r.hasPrice(name) {
			unpriced = append(unpriced, name)
		}
	}
	if cost := r.app.appNode.Get("reload").Get("budget").Get("cost"); cost != nil {
		unpriced = append(unpriced, r.listUnpricedModels(ctx)...)
		slices.Sort(unpriced)
		for _, name := range slices.Compact(unpriced) {
			r.report(missingPrice(cost, "value", "cost", name))
		}
	}
	return models
}

// readEvalSets reads all eval sets of the app with the places of their cases.
func (r *resolver) readEvalSets(ctx context.Context, places casePlaces) []*evalrun.SetFile {
	var sets []*evalrun.SetFile
	for _, file := range r.findFiles(ctx, "eval sets", evalfile.Suffix, evalfile.SetSuffix, eval.SetSuffix, eval.TestSuffix) {
		at := r.src.displayPath(file)
		text, err := r.src.readEvalFile(file)
		var set *evalrun.SetFile
		if err == nil {
			set, err = evalrun.DecodeSet(at, text, r.metricNames())
		}
		switch problems := spec.Diagnostics(nil); {
		case err == nil:
			sets = append(sets, set)
			places.addCases(set.ID, at, text)
		case isLimitError(err): // reported at the end of the load
		case errors.As(err, &problems):
			r.report(problems...)
		default:
			r.report(spec.Diagnostic{Pos: spec.Pos{File: at}, Rule: "file", Message: "cannot read the file: " + formatOSError(err)})
		}
	}
	return sets
}

// metricNames are the names of the metrics that the Go program has registered.
func (r *resolver) metricNames() *evalfile.Names {
	return &evalfile.Names{Metrics: slices.Sorted(maps.Keys(r.loader.opts.Metrics))}
}

// addCases adds the places of the cases of a set in any form.
func (p casePlaces) addCases(set, file string, text []byte) {
	n, _ := spec.Parse(file, text)
	if n == nil {
		return
	}
	items := n.Items // the oldest form
	for _, key := range []string{"cases", "eval_cases", "evalCases"} {
		if list := n.Get(key); list != nil {
			items = list.Items
		}
	}
	for _, item := range items {
		for _, key := range []string{"name", "eval_id", "evalId"} {
			if id := item.Get(key); id != nil && id.Kind == spec.Scalar {
				p[set+":"+id.Value] = id.Pos
			}
		}
	}
}

// readEvalConfig reads the criteria next to a set.
func (r *resolver) readEvalConfig(file string) ([]byte, error) {
	rel := strings.TrimPrefix(filepath.ToSlash(file), r.src.displayDir+"/")
	if !r.src.fileExists(rel) {
		return nil, fs.ErrNotExist
	}
	return r.src.readEvalFile(rel)
}
