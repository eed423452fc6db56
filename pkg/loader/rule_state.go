package loader

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"agenthost/internal/agentconfig"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// checkStateSchema checks all agents and tools in the tree against the state schema.
func checkStateSchema(app *appModel) spec.Diagnostics {
	var ds spec.Diagnostics
	schema := app.stateSchema()
	app.root.visitTree(func(p *resolvedAgent) {
		if at := p.plan.Node.Get("state_schema"); p != app.root && !at.IsNull() {
			ds = append(ds, at.Errorf("state-schema", "state_schema is allowed only on the root agent, not on agent %s", p.name))
		}
		if c, ok := p.plan.Config.(agentconfig.RouteConfig); ok {
			ds = append(ds, c.CheckRoutes(p.plan.Node, schema)...)
		}
		ds = append(ds, schema.CheckUse(p.cachedStateUse())...)
		for _, t := range p.tools {
			ds = append(ds, schema.CheckUse(t.collectStateUse())...)
		}
	})
	return ds
}

// stateFlow is the state use by all of an app's agents and tools, to find keys that are never
// written, read too early, or never read.
type stateFlow struct {
	root     *resolvedAgent
	schema   *tool.StateSchema
	accesses []stateAccess
	// writers are the agents and tools that write a key, in tree order.
	writers  map[string][]stateAccess
	keys     []string // the keys in writers, sorted
	readKeys map[string]bool
	// unwrittenCount counts the reported reads from unwritten keys.
	unwrittenCount int
	// suggestions caches suggestKey's results.
	suggestions map[string]string
	// opaque reports that code may write any key, readsAny that any key may be read.
	opaque, readsAny bool
	mayBeFinal       map[*resolvedAgent]bool
	// checkedGuards are the guards that were checked. warnedKeys are the keys with a
	// warning.
	checkedGuards map[spec.Pos]bool
	warnedKeys    keySet
	ds            spec.Diagnostics // from the current rule
}

// stateAccess is the state use by an agent, or by its tool.
type stateAccess struct {
	use   tool.StateUse
	agent *resolvedAgent
	// tool is nil for the agent itself.
	tool *resolvedTool
}

// keySet is a set of state keys.
type keySet map[string]bool

func (k keySet) union(more keySet) keySet {
	all := maps.Clone(k)
	maps.Copy(all, more)
	return all
}

// stateRules are the rules about state keys in one app, whose use is collected once.
type stateRules struct{ flow *stateFlow }

// check returns one rule's check.
func (r *stateRules) check(check func(f *stateFlow)) func(app *appModel) spec.Diagnostics {
	return func(app *appModel) spec.Diagnostics {
		if r.flow == nil {
			r.flow = newStateFlow(app)
		}
		r.flow.ds = nil
		check(r.flow)
		return r.flow.ds
	}
}

// newStateFlow collects the state keys that an app's tree uses.
func newStateFlow(app *appModel) *stateFlow {
	f := &stateFlow{
		root: app.root, schema: app.stateSchema(), writers: map[string][]stateAccess{}, readKeys: map[string]bool{}, suggestions: map[string]string{}, mayBeFinal: map[*resolvedAgent]bool{},
		checkedGuards: map[spec.Pos]bool{}, warnedKeys: keySet{},
	}
	f.collectAccesses(app.root)
	f.keys = slices.Sorted(maps.Keys(f.writers))
	f.markFinalAgents(app.root)
	return f
}

func (f *stateFlow) addProblem(d spec.Diagnostic) { f.ds = append(f.ds, d) }

// collectAccesses collects the state use by an agent, its tools and its descendants.
func (f *stateFlow) collectAccesses(p *resolvedAgent) {
	f.addAccess(stateAccess{use: p.cachedStateUse(), agent: p})
	for _, t := range p.tools {
		f.addAccess(stateAccess{use: t.collectStateUse(), agent: p, tool: t})
		if t.agent != nil {
			f.collectAccesses(t.agent)
			f.markFinalAgents(t.agent)
		}
	}
	for _, sub := range p.subs {
		f.collectAccesses(sub)
	}
}

func (f *stateFlow) addAccess(p stateAccess) {
	f.accesses = append(f.accesses, p)
	f.opaque = f.opaque || p.use.Opaque
	f.readsAny = f.readsAny || p.use.ReadsAny
	for _, w := range p.use.Writes {
		f.writers[w.Key.Value] = append(f.writers[w.Key.Value], p)
	}
	for _, t := range p.use.Texts {
		for _, ref := range t.Refs {
			f.readKeys[ref.Name] = true
		}
	}
	for _, e := range p.use.Exprs {
		uses := template.UsesOf(e.Expr.Value, "state")
		f.readsAny = f.readsAny || uses.Whole
		for _, m := range uses.Members {
			f.readKeys[m.Name] = true
		}
	}
}

// markFinalAgents marks the agents below an agent that may give the final answer: the
// caller may read the keys that they write.
func (f *stateFlow) markFinalAgents(p *resolvedAgent) {
	f.mayBeFinal[p] = true
	subs := p.subs
	if p.plan.Kind.Name == "SequentialAgent" {
		for len(subs) > 1 && !mayBeSkipped(subs[len(subs)-1]) {
			subs = subs[len(subs)-1:]
		}
	}
	for _, sub := range subs {
		f.markFinalAgents(sub)
	}
}

func mayBeSkipped(p *resolvedAgent) bool {
	return !p.plan.Node.Get("when").IsNull() || p.plan.Kind.Name == "RouterAgent"
}

// isKnownKey reports whether a key needs no writer: the schema declares it, or code may
// write it.
func (f *stateFlow) isKnownKey(key string) bool {
	typed := f.schema.Closed() && !strings.Contains(key, ":")
	return typed || f.schema.Declares(key) || f.opaque || f.writers[key] != nil || strings.HasPrefix(key, "_adk")
}

// outlivesSession reports whether a key outlives its session, so that another session
// may have written it.
func outlivesSession(key string) bool {
	return strings.HasPrefix(key, session.AppPrefix) || strings.HasPrefix(key, session.UserPrefix)
}

// stateRead is one read of a key, with the hint for a missing key.
type stateRead struct {
	at       spec.Text
	offset   int
	key      string
	required bool
	hint     string
}

// checkReads warns about keys that nothing writes. An optional placeholder, or one whose key
// outlives the session, causes a warning only if it is similar to a written key.
func (f *stateFlow) checkReads() {
	for _, p := range f.accesses {
		for _, t := range p.use.Texts {
			for _, ref := range t.Refs {
				f.checkRead(stateRead{t.Text, ref.Offset, ref.Name, !ref.Optional && !outlivesSession(ref.Name), "write {" + ref.Name + "?} if it may be missing, or {!" + ref.Name + "} for literal braces"})
			}
		}
		for _, e := range p.use.Exprs {
			for _, m := range template.UsesOf(e.Expr.Value, "state").Members {
				f.checkRead(stateRead{e.Expr.Text, m.Offset, m.Name, !m.Optional && !strings.Contains(m.Name, ":"), ""})
			}
		}
	}
}

// suggestKey returns the written key that is most similar to an unwritten one, or "".
func (f *stateFlow) suggestKey(key string) string {
	near, asked := f.suggestions[key]
	if !asked {
		near = spec.Suggest(key, f.keys)
		f.suggestions[key] = near
	}
	return near
}

// checkRead warns about a key that nothing writes if it is required or similar to a written key.
func (f *stateFlow) checkRead(r stateRead) {
	if f.isKnownKey(r.key) || f.unwrittenCount >= maxUnwrittenReports {
		return
	}
	near := f.suggestKey(r.key)
	if near == "" && !r.required {
		return
	}
	if isForeignVariable(r.at.Value, r.offset) {
		return
	}
	f.unwrittenCount++
	d := r.at.Warnf(r.offset, "state-unwritten", "nothing in the app writes the state key %s", r.key)
	if f.isToolParam(r.at.Pos, r.key) {
		f.addProblem(d.WithHint("write {args.%s} for the parameter of the tool", r.key).WithProposal("{"+r.key+"}", "{args."+r.key+"}"))
		return
	}
	switch declare := "if the initial state has it, declare it in the state_schema of the root agent"; {
	case near != "":
		d = d.WithNearName(r.key, near)
	case strings.Contains(r.key, ":"):
		d.Hint = r.hint
	case r.hint != "":
		d.Hint = r.hint + "; " + declare
	default:
		d.Hint = declare
	}
	if near == "" && r.hint != "" && strings.HasPrefix(r.at.Value[r.offset:], "{"+r.key+"}") {
		d = d.WithProposal("{"+r.key+"}", "{"+r.key+"?}").WithProposal("{"+r.key+"}", "{!"+r.key+"}")
	}
	f.addProblem(d)
}

// isToolParam reports whether the text at a position belongs to a tool that has a parameter with the
// key's name.
func (f *stateFlow) isToolParam(at spec.Pos, key string) bool {
	found := false
	f.root.visitTree(func(p *resolvedAgent) {
		for _, t := range p.tools {
			params := t.node.Get("params")
			found = found || (params.Get(key) != nil || params.Get("properties").Get(key) != nil) && containsText(t.node, at)
		}
	})
	return found
}

// containsText reports whether a scalar below a node is at a position.
func containsText(n *spec.Node, at spec.Pos) bool {
	return n.Kind == spec.Scalar && n.Pos == at ||
		slices.ContainsFunc(n.Entries, func(e spec.Entry) bool { return containsText(e.Value, at) }) ||
		slices.ContainsFunc(n.Items, func(item *spec.Node) bool { return containsText(item, at) })
}

// checkWrites warns about keys that nothing reads, and about keys that no placeholder can read.
func (f *stateFlow) checkWrites() {
	for _, p := range f.accesses {
		for _, w := range p.use.Writes {
			key := w.Key.Value
			switch {
			case !isPlaceholderKey(key) && !f.readKeys[key] && !f.readsAny:
				f.addProblem(w.Key.Warnf(0, "state-key", "no placeholder can read the state key %s: its name is not an identifier", key).
					WithHint("use letters, digits and underscores; in an expression, write state[%q]", key))
			case p.tool == nil && f.isUnread(key) && !f.mayBeFinal[p.agent]:
				d := w.Key.Warnf(0, "state-unread", "nothing in the app reads the state key %s, and agent %s does not give the final answer", key, p.agent.name)
				f.addProblem(d.WithHint("remove it, or declare it in the state_schema of the root agent if clients read it"))
			}
		}
	}
}

func (f *stateFlow) isUnread(key string) bool {
	typed := f.schema.Declares(key)
	return !f.readKeys[key] && !f.readsAny && !f.opaque && !typed && !strings.Contains(key, ":")
}

// checkOverwritten warns about tools that write their agent's output_key.
func (f *stateFlow) checkOverwritten() {
	for _, p := range f.accesses {
		if p.tool == nil {
			continue
		}
		for _, w := range p.agent.cachedStateUse().Writes {
			if w.Verb == "output_key" {
				f.checkOutputKey(p, w)
			}
		}
	}
}

func (f *stateFlow) checkOutputKey(p stateAccess, answer tool.StateWrite) {
	for _, by := range p.use.Writes {
		if by.Key.Value == answer.Key.Value {
			f.addProblem(answer.Key.Warnf(0, "output-key", "a tool of agent %s also writes the state key %s, at %s: the answer overwrites it",
				p.agent.name, answer.Key.Value, by.Key.Pos).WithHint("use a separate key for the answer"))
		}
	}
}

// malformedPlaceholder matches text that resembles a placeholder with a prefix or a
// path.
var malformedPlaceholder = regexp.MustCompile(`\{\s*([A-Za-z_]\w*)([:.])([A-Za-z_]\w*)\??\s*\}`)

// templateTag matches the tags in Jinja and similar template languages.
var templateTag = regexp.MustCompile(`\{%-?\s*(\w+)[^%{}]*%\}`)

// statePrefixes returns the state key prefixes, without colons.
func statePrefixes() []string { return []string{"app", "temp", "user"} }

// checkPlaceholders warns about text that resembles a placeholder but is not one, so that the model
// would get it unchanged.
func (f *stateFlow) checkPlaceholders() {
	for _, p := range f.accesses {
		for _, t := range p.use.Texts {
			f.checkPlaceholder(t)
		}
	}
}

func (f *stateFlow) checkPlaceholder(t tool.StateText) {
	src := t.Text.Value
	if !t.Paths {
		f.checkPreserved(t.Text)
	}
	for _, m := range malformedPlaceholder.FindAllStringSubmatchIndex(src, -1) {
		root, sign, rest := src[m[2]:m[3]], src[m[4]:m[5]], src[m[6]:m[7]]
		switch {
		case sign == ":": // see checkPrefixes
		case slices.Contains(statePrefixes(), root) && !t.Paths && !strings.HasSuffix(src[:m[0]], "$"):
			f.addProblem(t.Text.Warnf(m[0], "placeholder", "%s is not a placeholder and stays unchanged: a key prefix ends with a colon", src[m[0]:m[1]]).
				WithHint("write {%s:%s?}, or put literal text into static_instruction", root, rest))
		case root == "state" && !t.Paths && !isOtherTemplate(src, m[0], m[1]):
			f.addProblem(t.Text.Warnf(m[0], "placeholder", "%s is not a placeholder and stays unchanged: a placeholder contains only the key", src[m[0]:m[1]]).
				WithHint("write {%s}", rest).WithFix(src[m[0]:m[7]], "{"+rest))
		}
	}
	if m := templateTag.FindStringSubmatchIndex(src); m != nil && !t.Paths {
		f.addProblem(t.Text.Warnf(m[0], "placeholder", "%s stays unchanged: instructions support placeholders, but not {%% %s %%}", src[m[0]:m[1]], src[m[2]:m[3]]).
			WithHint("use an agent with a when condition for each case, or put literal text into static_instruction"))
	}
}

// checkPreserved warns once per instruction in which ADK before 2.10 would have inserted a
// value after a dollar sign or backslash.
func (f *stateFlow) checkPreserved(t spec.Text) {
	for _, ref := range template.Parse(t.Value).Preserved() {
		if !ref.Optional && (ref.Artifact || !f.isKnownKey(ref.Name)) {
			continue // no run answered: the value is missing
		}
		sign, name := t.Value[ref.Offset-1:ref.Offset], ref.Name
		if ref.Artifact {
			name = "artifact." + name
		}
		f.addProblem(t.Warnf(ref.Offset-1, "placeholder", "%s{%s} stays unchanged: since ADK 2.10, text after %s is not a placeholder", sign, name, sign).
			WithHint("to insert the value, write a space before {%s}; to keep the text without this warning, write %s{!%s}", name, sign, name))
		return
	}
}

// isOtherTemplate reports whether braces belong to another template language, as in
// ${state.x} and {{state.x}}.
func isOtherTemplate(src string, from, to int) bool {
	return strings.HasSuffix(src[:from], "$") || strings.HasSuffix(src[:from], "{") || strings.HasPrefix(src[to:], "}")
}

// checkPrefixes warns about keys whose prefix is similar to a state prefix.
func (f *stateFlow) checkPrefixes() {
	for _, p := range f.accesses {
		for _, t := range p.use.Texts {
			for _, m := range malformedPlaceholder.FindAllStringSubmatchIndex(t.Text.Value, -1) {
				if key := t.Text.Value[m[2]:m[7]]; t.Text.Value[m[4]:m[5]] == ":" {
					f.checkPrefix(t.Text, key, m[2])
				}
			}
		}
		for _, e := range p.use.Exprs {
			for _, m := range template.UsesOf(e.Expr.Value, "state").Members {
				f.checkPrefix(e.Expr.Text, m.Name, m.Offset)
			}
		}
		for _, w := range p.use.Writes {
			f.checkPrefix(w.Key, w.Key.Value, 0)
		}
	}
}

func (f *stateFlow) checkPrefix(at spec.Text, key string, offset int) {
	prefix, rest, ok := strings.Cut(key, ":")
	if !ok || !isIdentifier(prefix) || rest == "" {
		return
	}
	near := spec.Suggest(prefix, statePrefixes())
	own := prefix == "session" || prefix == "state"
	if near == prefix || near == "" && !own {
		return
	}
	d := at.Warnf(offset, "state-prefix", "unknown state prefix %s:, must be app:, user: or temp:", prefix)
	if own {
		f.addProblem(d.WithHint("session keys have no prefix: write %s", rest).WithFix(key, rest))
		return
	}
	f.addProblem(d.WithHint("did you mean %q?", near+":"+rest).WithFix(key, near+":"+rest))
}

// isPlaceholderKey reports whether a placeholder can contain the key.
func isPlaceholderKey(key string) bool {
	prefix, rest, ok := strings.Cut(key, ":")
	if !ok {
		return isIdentifier(key)
	}
	return isIdentifier(prefix) && isIdentifier(rest)
}
