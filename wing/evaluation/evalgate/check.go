// Package evalgate adds evaluation to apps: a loader checks the eval sets in their
// folders, and a gate runs them before a changed app is activated.
//
//	evals := &evalgate.Kind{}
//	loader.Kinds{Files: []loader.FileKind{evals.Files()}, Gates: []loader.Gate{evals.Gate()}}
package evalgate

import (
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"

	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalfile"
	"agenthost/wing/evaluation/evalrun"
)

// A Kind is evaluation in apps: the file kind for eval sets and the gate that runs them.
type Kind struct {
	// Metrics are a Go program's custom metrics, which eval sets and test_config.json may
	// name.
	Metrics map[string]eval.MeasureFunc
}

// Files returns the file kind for eval sets: *.eval.yaml, ADK's eval sets and test files in
// JSON and YAML, and their test_config.json.
func (k *Kind) Files() loader.FileKind {
	return loader.FileKind{
		Name: "eval", Matches: func(file string) bool { return strings.HasSuffix(file, evalfile.Suffix) }, Schema: evalfile.Schema,
		Title: "Evaluations", About: "A file `*.eval.yaml` in an app is an eval set; see [eval-sets.md](eval-sets.md#eval-sets-in-yaml).", Reference: evalfile.Reference,
		Check: k.checkFiles,
		Owns:  func(file string) bool { return strings.HasSuffix(file, evalfile.SetSuffix) }, Names: findNames,
		Suffixes: []string{evalfile.Suffix, evalfile.SetSuffix, eval.SetSuffix, eval.TestSuffix, eval.ConfigFile},
	}
}

// findNames returns the names from an app in an eval set, in YAML or ADK's JSON: judges, the tools in
// expected calls, those with criteria or stubs, agents, state keys, and the expressions of metrics.
func findNames(keys []string, key string) loader.NameKind {
	in := func(names ...string) bool { return len(keys) > 0 && slices.Contains(names, keys[len(keys)-1]) }
	itemIn := func(names ...string) bool {
		return len(keys) > 1 && in("[]") && slices.Contains(names, keys[len(keys)-2])
	}
	inValue := slices.ContainsFunc(keys, func(step string) bool {
		return slices.Contains([]string{"args", "return", "response", "payload"}, step)
	})
	inMetric := len(keys) > 1 && keys[len(keys)-2] == "metrics"
	switch {
	case len(keys) == 2 && (key == "name" && itemIn("cases") || key == "eval_id" && itemIn("eval_cases")):
		return loader.CaseNames
	case key == "judge_model", key == "model" && in("simulation", "user_simulator_config"):
		return loader.ModelNames
	case key == "name" && itemIn("calls", "tool_uses", "tool_responses"), key == "" && in("tools", "respond"):
		return loader.ToolNames
	case key == "author" && itemIn("invocation_events"), key == "agent_name" && in("args"):
		return loader.AgentNames
	case inValue:
		return loader.NoNames
	case key == "expr" && inMetric:
		return loader.Expressions
	case key == "" && in("final_state", "final_session_state"):
		return loader.StateNames
	case key == "" && in("state"):
		return loader.StateValues
	}
	return loader.NoNames
}

// Gate returns the gate that lets an app pass if the cases in its eval sets pass.
func (k *Kind) Gate() loader.Gate {
	return loader.Gate{Name: runtime.GateEvals, Rule: "eval-failed", Run: k.runGate, Unsteady: true}
}

// checkFiles reports the problems in eval files and in the gate that the app configures.
func (k *Kind) checkFiles(ctx context.Context, in *loader.Inspection) {
	k.checkEvals(ctx, in)
	if jobs, _ := k.planGatedEvals(ctx, in, false); jobs != nil {
		resolveJudges(ctx, in, jobs)
	}
}

// checkEvals reports the problems in eval files, in ADK's eval sets and test files, and in
// their configs.
func (k *Kind) checkEvals(ctx context.Context, in *loader.Inspection) {
	isUsable := in.HasAgents()
	own := in.ListNames()
	names := k.metricNames()
	names.Tools, names.State = own.Tools, own.State
	if names.Tools != nil {
		names.Tools = append(slices.Clone(names.Tools), "transfer_to_agent", "set_model_response", "adk_request_confirmation", "adk_request_credential")
	}
	files := in.FindFiles(ctx, "eval sets", evalfile.Suffix, evalfile.SetSuffix, eval.SetSuffix, eval.TestSuffix, eval.ConfigFile)
	configs := readEvalConfigs(in, files, names)
	var judges []spec.Text
	for _, file := range files {
		names.Config = configs[path.Dir(file)]
		if strings.HasSuffix(file, evalfile.Suffix) {
			n, ds := in.ParseFile(file) // without references, as it runs
			if n != nil && !ds.HasErrors() {
				f, more := evalfile.Decode(n, names)
				ds = append(ds, more...)
				judges = append(judges, f.Models...)
			}
			in.Report(ds...)
			continue
		}
		if name := path.Base(file); name == eval.ConfigFile || !strings.HasSuffix(name, eval.ConfigFile) {
			models, ds := checkADKFile(in, file, names)
			judges = append(judges, models...)
			in.Report(ds...)
		}
	}
	if !isUsable {
		return // names of models may be unknown because of other problems
	}
	for _, name := range judges {
		in.ResolveModel(ctx, name)
	}
}

// readEvalConfigs reads the test_config.json in each folder. One with problems, which are
// reported elsewhere, is empty.
func readEvalConfigs(in *loader.Inspection, files []string, names *evalfile.Names) map[string]*eval.Config {
	configs := map[string]*eval.Config{}
	for _, file := range files {
		if path.Base(file) != eval.ConfigFile {
			continue
		}
		config := &eval.Config{}
		if src, err := in.ReadAppFile(file); err == nil {
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

// checkADKFile returns the problems in an ADK file.
func checkADKFile(in *loader.Inspection, file string, names *evalfile.Names) ([]spec.Text, spec.Diagnostics) {
	at := in.DisplayPath(file)
	src, err := in.ReadAppFile(file)
	if err != nil {
		return nil, spec.Diagnostics{in.DescribeReadError(file, err)}
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

// casePlaces are case positions by SET:CASE.
type casePlaces map[string]spec.Pos

// planGatedEvals reads the eval sets that the app's gate runs, and reports their problems.
// The jobs are nil if there are errors, or if evals do not gate the app. vertex reports that
// Vertex AI's evaluation service is available.
func (k *Kind) planGatedEvals(ctx context.Context, in *loader.Inspection, vertex bool) ([]*evalrun.Job, casePlaces) {
	options := in.Reload()
	if in.HasErrors() || options == nil || !slices.Contains(options.Gate, runtime.GateEvals) {
		return nil, nil
	}
	at := in.Setting("reload", "gate")
	if named := in.Setting("reload", "eval_sets"); named != nil {
		at = named
	}
	places := casePlaces{}
	jobs, err := evalrun.PlanSets(k.readEvalSets(ctx, in, places), eval.ParseSelections(options.EvalSets), &evalrun.PlanOptions{Custom: k.metricNames().Metrics, Vertex: vertex, Read: in.ReadAppFile})
	problems := spec.Diagnostics(nil)
	switch {
	case in.HasErrors():
		return nil, nil
	case errors.Is(err, evalrun.ErrNoSets):
		in.Report(at.Errorf("value", "evals gate the app, which has no eval set").WithHint("write one in a file such as first.eval.yaml, or remove evals from gate"))
		return nil, nil
	case errors.As(err, &problems):
		in.Report(problems...)
		return nil, nil
	case err != nil:
		in.Report(at.Errorf("value", "%s", err))
		return nil, nil
	}
	return jobs, places
}

// resolveJudges returns the models for judges and simulated users. With a cost budget, it
// rejects app models and judges that have no price.
func resolveJudges(ctx context.Context, in *loader.Inspection, jobs []*evalrun.Job) evalrun.Models {
	at := in.Setting("reload", "gate")
	models := evalrun.Models{}
	var unpriced []string
	for _, name := range evalrun.ModelNames(jobs) {
		models[name] = in.ResolveModel(ctx, spec.Text{Value: name, Pos: at.Pos})
		if models[name] != nil && !in.HasPrice(name) {
			unpriced = append(unpriced, name)
		}
	}
	if cost := in.Setting("reload", "budget", "cost"); cost != nil {
		unpriced = append(unpriced, in.UnpricedModels(ctx)...)
		slices.Sort(unpriced)
		for _, name := range slices.Compact(unpriced) {
			in.ReportMissingPrice(cost, "value", "cost", name)
		}
	}
	return models
}

// readEvalSets reads all eval sets in the app with the places of their cases.
func (k *Kind) readEvalSets(ctx context.Context, in *loader.Inspection, places casePlaces) []*evalrun.SetFile {
	var sets []*evalrun.SetFile
	for _, file := range in.FindFiles(ctx, "eval sets", evalfile.Suffix, evalfile.SetSuffix, eval.SetSuffix, eval.TestSuffix) {
		at := in.DisplayPath(file)
		text, err := in.ReadAppFile(file)
		var set *evalrun.SetFile
		if err == nil {
			set, err = evalrun.DecodeSet(at, text, k.metricNames())
		}
		switch problems := spec.Diagnostics(nil); {
		case err == nil:
			sets = append(sets, set)
			places.addCases(set.ID, at, text)
		case errors.As(err, &problems):
			in.Report(problems...)
		default:
			in.Report(in.DescribeReadError(file, err))
		}
	}
	return sets
}

// metricNames are the metrics that the Go program has registered.
func (k *Kind) metricNames() *evalfile.Names {
	return &evalfile.Names{Metrics: slices.Sorted(maps.Keys(k.Metrics))}
}

// addCases adds the places for cases from a set in any form.
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
