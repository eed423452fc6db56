package evalfile

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/turn"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/wing/evaluation/eval"
)

// Suffix ends eval file names.
const Suffix = ".eval.yaml"

// Read parses and decodes an eval file.
func Read(file string, src []byte, names *Names) (*File, spec.Diagnostics) {
	n, ds := spec.Parse(file, src)
	if ds.HasErrors() {
		return nil, ds
	}
	f, more := Decode(n, names)
	return f, append(ds, more...)
}

// Decode decodes an eval file. It reports all problems. The cases cannot run if any problem
// is an error. The set's ID is the file name without its suffix.
func Decode(n *spec.Node, names *Names) (*File, spec.Diagnostics) {
	d := &decoder{names: names, seenCases: map[string]spec.Pos{}}
	if problem, found := findADKForm(n); found {
		return &File{Set: &eval.Set{}}, spec.Diagnostics{problem}
	}
	var c fileConfig
	d.addDiagnostics(spec.Decode(n, &c)...)
	id := strings.TrimSuffix(path.Base(n.Pos.File), Suffix)
	f := &File{Set: &eval.Set{ID: id, Name: id, Description: c.Description, Cases: []*eval.Case{}}}
	d.addStubs(n, &c.Stubs, &f.Extra)
	d.shared = d.decodeRubrics(c.Rubrics.node)
	d.judgesAll = judgesTurns(c.Metrics.node)
	for i, item := range listItems(n.Get("cases")) {
		if i < len(c.Cases) {
			f.Cases = append(f.Cases, d.decodeCase(item, &c.Cases[i]))
		}
	}
	if cases := n.Get("cases"); cases != nil && cases.Kind == spec.Sequence && len(cases.Items) == 0 {
		d.addDiagnostics(cases.Errorf("eval", "cases has no case").WithHint("add - name: NAME, user: TEXT and expect: {text: TEXT}"))
	}
	d.addDiagnostics(checkSimulations(d.stubs, d.names)...)
	f.Config = d.decodeConfig(n, &c)
	if !d.diagnostics.HasErrors() {
		d.checkCoverage(n, f)
	}
	f.Models = d.models
	d.diagnostics.Sort()
	return f, d.diagnostics
}

// findADKForm reports a file in an ADK form, whose keys this one does not have.
func findADKForm(n *spec.Node) (spec.Diagnostic, bool) {
	if n.Kind == spec.Sequence && len(n.Items) > 0 {
		problem := n.Errorf("eval", "an eval file must be a mapping, got a list")
		if item := n.Items[0]; item.Get("data") != nil || item.Get("query") != nil {
			return problem.WithHint("this is an ADK form: give the file a name such as orders.evalset.yaml"), true
		}
		return problem.WithHint("write the list under cases:"), true
	}
	for _, key := range []string{"eval_cases", "evalCases", "eval_set_id", "evalSetId"} {
		if at := n.Get(key); at != nil {
			return n.Errorf("eval", "%s is a key in ADK's eval sets", key).WithHint("give the file a name such as orders.evalset.yaml, or write the cases under cases:"), true
		}
	}
	return spec.Diagnostic{}, false
}

func (d *decoder) decodeCase(n *spec.Node, c *caseConfig) *eval.Case {
	got := &eval.Case{ID: c.Name.Value, FinalState: c.FinalState, Session: &eval.SessionInput{User: c.UserID, State: c.State}}
	if c.StateMatch == eval.StateExact {
		got.FinalStateMatch = eval.StateExact
	}
	if n.Kind != spec.Mapping {
		return got
	}
	d.checkCaseName(c.Name)
	d.addStubs(n, &c.Stubs, &got.Extra)
	if at := n.Get("final_state_match"); at != nil && n.Get("final_state") == nil {
		d.addDiagnostics(at.Errorf("eval", "final_state_match requires final_state"))
	}
	got.Rubrics = d.decodeRubrics(c.Rubrics.node)
	if !c.Metrics.node.IsNull() {
		got.Criteria = d.decodeCriteria(c.Metrics.node)
	}
	if c.Plan != nil {
		got.Scenario = d.decodeScenario(n, c)
		return got
	}
	if at := n.Get("persona"); at != nil {
		d.addDiagnostics(at.Errorf("eval", "persona requires plan"))
	}
	got.Conversation = []*eval.Invocation{d.decodeTurn(n, &c.First, got)}
	for i, item := range listItems(n.Get("then")) {
		if i < len(c.Then) {
			got.Conversation = append(got.Conversation, d.decodeTurn(item, &c.Then[i], got))
		}
	}
	for i, inv := range got.Conversation {
		inv.ID = fmt.Sprintf("turn-%d", i+1)
	}
	if !d.judgesAll && !judgesTurns(c.Metrics.node) && !expectsSomething(got) && !d.diagnostics.HasErrors() {
		d.addDiagnostics(n.Warnf("eval-expects-nothing", "the case expects nothing from the agent").
			WithHint("add expect: {text: TEXT}, or rubrics:"))
	}
	return got
}

// checkCaseName reports names that appear twice, or that eval SET:CASE,CASE cannot select.
func (d *decoder) checkCaseName(name spec.Text) {
	if name.Value == "" {
		return // reported by spec.Decode
	}
	if i := strings.IndexAny(name.Value, ",:"); i >= 0 {
		d.addDiagnostics(name.Errorf(i, "eval", "a case name cannot contain %q", name.Value[i:i+1]))
	}
	if first, found := d.seenCases[name.Value]; found {
		d.addDiagnostics(name.Errorf(0, "duplicate-name", "duplicate case name, first used in line %d", first.Line))
		return
	}
	d.seenCases[name.Value] = name.Pos
}

// judgesTurns reports whether a metric scores turns without expectations.
func judgesTurns(metrics *spec.Node) bool {
	return slices.ContainsFunc(entriesOf(metrics), func(e spec.Entry) bool {
		metric, found := eval.FindMetric(e.Key.Value)
		return !found || !metric.NeedsExpected
	})
}

func (d *decoder) decodeScenario(n *spec.Node, c *caseConfig) *eval.Scenario {
	for _, key := range []string{"expect", "then", "parts", "confirm", "respond"} {
		if at := n.Get(key); at != nil {
			d.addDiagnostics(at.Errorf("eval", "plan and %s are mutually exclusive", key))
		}
	}
	s := &eval.Scenario{Plan: c.Plan.Value, Persona: c.Persona.persona}
	switch {
	case c.First.User == nil:
		d.addDiagnostics(n.Get("plan").Errorf("eval", "plan requires user, the simulated user's first message"))
	default:
		s.StartingPrompt = c.First.User.Value
	}
	return s
}

func (d *decoder) decodeTurn(n *spec.Node, c *turnConfig, in *eval.Case) *eval.Invocation {
	inv := &eval.Invocation{UserContent: &genai.Content{Role: genai.RoleUser}}
	if n.Kind != spec.Mapping {
		return inv
	}
	d.addDiagnostics(turn.CheckInput(n, c.Confirm, "eval")...)
	inv.UserContent.Parts = d.decodeInput(n, c)
	if c.Expect == nil {
		return inv
	}
	if c.Expect.Text != nil {
		inv.FinalResponse = genai.NewContentFromText(c.Expect.Text.Value, genai.RoleModel)
	}
	if at := n.Get("expect"); at.Get("calls") != nil {
		inv.Intermediate = &eval.Intermediate{}
		for _, call := range c.Expect.Calls {
			inv.Intermediate.ToolUses = append(inv.Intermediate.ToolUses, d.decodeCall(&call))
		}
	}
	inv.Rubrics = d.decodeRubrics(c.Expect.Rubrics.node)
	for _, r := range inv.Rubrics {
		if findRubric(in.Rubrics, r.ID) != nil {
			d.addDiagnostics(n.Get("expect").Get("rubrics").Errorf("duplicate-name", "rubric %q is also in the case", r.ID))
		}
	}
	return inv
}

// decodeInput returns the user's message. Its responses have no IDs: the pending calls' IDs
// are known when the case runs.
func (d *decoder) decodeInput(n *spec.Node, c *turnConfig) []*genai.Part {
	var parts []*genai.Part
	switch {
	case c.User != nil:
		parts = append(parts, &genai.Part{Text: c.User.Value})
	case c.Confirm != nil:
		decision := turn.NewDecision(*c.Confirm)
		if c.Payload != nil {
			decision = decision.WithPayload(c.Payload.Any())
		}
		parts = append(parts, genai.NewPartFromFunctionResponse(runtime.RequestConfirmation, decision))
	}
	for _, e := range entriesOf(n.Get("respond")) {
		if value, ok := c.Respond[e.Key.Value]; ok {
			d.checkTool(e.Key.Text())
			answer := turn.Answer{Function: e.Key.Value, Value: value}
			parts = append(parts, genai.NewPartFromFunctionResponse(answer.Function, answer.Response()))
		}
	}
	return append(parts, c.Parts...)
}

func (d *decoder) decodeCall(c *callConfig) *genai.FunctionCall {
	args := c.Args
	if args == nil {
		args = map[string]any{} // as in the turns of a run: nil differs from no arguments
	}
	d.checkTool(c.Name)
	return &genai.FunctionCall{Name: c.Name.Value, Args: args}
}
