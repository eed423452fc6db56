package loader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"agenthost/pkg/spec"
)

// An EffectiveApp is an app's effective configuration.
type EffectiveApp struct {
	// Document is the effective app.yaml, with overlay, includes and values. root_agent
	// contains the whole agent tree with defaults and schemas. Each node has the
	// position where it was written. [spec.Print] prints it without secrets.
	Document *spec.Node
	// Files are all files that were read. Values are the variables and secrets that were
	// read, such as "env MODEL". Both are sorted.
	Files, Values []string
	// Revision is the app's revision.
	Revision string
}

// ResolveEffective returns an app's effective configuration, or nil if there are errors.
func (l *Loader) ResolveEffective(ctx context.Context, dir string) (*EffectiveApp, spec.Diagnostics) {
	var e *EffectiveApp
	ds := l.inspectApp(ctx, dir, func(r *resolver) {
		e = &EffectiveApp{
			Document: r.app.buildEffectiveDocument(), Revision: r.src.computeRevision(),
			Files: slices.Sorted(maps.Keys(r.src.readFiles)), Values: slices.Sorted(maps.Keys(r.src.usedValues)),
		}
	})
	return e, ds
}

// VisitModels calls visit for each model that an app uses: first for agents in tree order, then for
// summaries, then for their routes and fallbacks. The models are closed when it returns. It visits
// nothing if there are errors, or if Options.Model replaces all models.
func (l *Loader) VisitModels(ctx context.Context, dir string, visit func(ModelUse)) spec.Diagnostics {
	return l.inspectApp(ctx, dir, func(r *resolver) {
		for _, use := range r.listModelUses(ctx) {
			visit(use)
		}
	})
}

// inspectApp resolves an app, calls look if there are no errors, and closes the app.
func (l *Loader) inspectApp(ctx context.Context, dir string, look func(r *resolver)) spec.Diagnostics {
	src, ds := l.openAppFolder(dir)
	if src == nil {
		return ds
	}
	defer src.close()
	r := newResolver(l, src)
	r.resolveApp(ctx)
	if r.app.root != nil && !r.ds.HasErrors() {
		look(r)
	}
	r.held.close()
	return r.collectProblems()
}

// buildEffectiveDocument returns app.yaml without the declarations that are merged into
// the agents.
func (a *appModel) buildEffectiveDocument() *spec.Node {
	doc := &spec.Node{Kind: spec.Mapping, Tag: "!!map"}
	if a.appNode != nil {
		*doc = *a.appNode
	}
	parts := []string{"include", "models", "agents", "tools", "connections", "functions", "schemas", "defaults", "root_agent"}
	doc.Entries = slices.DeleteFunc(slices.Clone(doc.Entries), func(e spec.Entry) bool { return slices.Contains(parts, e.Key.Value) })
	for _, s := range []partTable{{"models", a.names.models}, {"tools", a.names.tools}, {"connections", a.names.connections}, {"functions", a.names.functions}, {"schemas", a.names.schemas}} {
		section := &spec.Node{Kind: spec.Mapping, Tag: "!!map"}
		for name, p := range sortedParts(s.parts) {
			if !p.shared || a.used[p.node] {
				section.Entries = append(section.Entries, spec.Entry{Key: newScalar(name), Value: p.node})
			}
		}
		if len(section.Entries) > 0 {
			doc.Entries = append(doc.Entries, spec.Entry{Key: newScalar(s.label), Value: section})
		}
	}
	doc.Entries = append(doc.Entries, spec.Entry{Key: newScalar("root_agent"), Value: a.root.expandRefs()})
	return doc
}

// newScalar returns a scalar without a position.
func newScalar(text string) *spec.Node {
	return &spec.Node{Kind: spec.Scalar, Tag: "!!str", Value: text}
}

// expandRefs returns the agent's mapping with its references replaced by the agents.
func (p *resolvedAgent) expandRefs() *spec.Node {
	at := map[*spec.Node]*resolvedAgent{}
	for _, sub := range p.subs {
		at[sub.at] = sub
	}
	for _, t := range p.tools {
		if t.agent != nil {
			at[t.agent.at] = t.agent
		}
	}
	return expandNode(p.plan.Node, at)
}

func expandNode(n *spec.Node, at map[*spec.Node]*resolvedAgent) *spec.Node {
	if sub := at[n]; sub != nil && n.Kind == spec.Mapping {
		return sub.expandRefs()
	}
	if n.Kind == spec.Scalar {
		return n
	}
	out := *n
	out.Entries, out.Items = nil, nil
	for _, e := range n.Entries {
		out.Entries = append(out.Entries, spec.Entry{Key: e.Key, Value: expandNode(e.Value, at)})
	}
	for _, item := range n.Items {
		out.Items = append(out.Items, expandNode(item, at))
	}
	return &out
}

// An Outline lists the names that an app's documents declare, for editors. If the app has errors,
// the outline may be incomplete.
type Outline struct {
	// Agents, Tools and Models are sorted by name.
	Agents, Tools, Models []Symbol
	// State are the state keys, sorted by name.
	State []StateKey
	// ImplicitModels are the models of the agents that name none.
	ImplicitModels []ImplicitModel
	// Documents are the parsed files, by their paths in the app.
	Documents map[string]*spec.Node
}

// A Symbol is a named declaration.
type Symbol struct {
	Name string
	// Doc is its description.
	Doc string
	// Pos is where the name is declared.
	Pos spec.Pos
}

// An OutlineCache keeps what one app's last outline derived from its files: the next one parses and
// decodes only those that changed. The zero value is empty. It is not safe for concurrent use.
type OutlineCache struct{ load loadCache }

// Outline reads an app's folder, with its tests, for editors. The diagnostics are those of
// [Loader.Check]. The cache may be nil.
func (l *Loader) Outline(ctx context.Context, dir string, cache *OutlineCache) (*Outline, spec.Diagnostics) {
	var o *Outline
	var derived *loadCache
	if cache != nil {
		derived = &cache.load
	}
	got := l.loadApp(ctx, dir, derived, func(ctx context.Context, r *resolver) {
		checkFiles(ctx, r)
		o = r.app.buildOutline(r.src.documents)
		o.ImplicitModels = l.listImplicitModels(r.app.root)
	})
	if got.app != nil {
		got.app.Close()
	}
	if o == nil {
		o = &Outline{}
	}
	return o, got.ds
}

func (a *appModel) buildOutline(documents map[string]*spec.Node) *Outline {
	agents, tools, models := map[string]Symbol{}, map[string]Symbol{}, map[string]Symbol{}
	for name, p := range a.names.agents {
		agents[name] = newSymbol(name, p.node)
	}
	for name, p := range a.names.tools {
		tools[name] = newSymbol(name, p.node)
	}
	for name, p := range a.names.models {
		models[name] = newSymbol(name, p.node)
	}
	if a.root != nil {
		a.root.visitTree(func(p *resolvedAgent) {
			agents[p.name] = newSymbol(p.name, p.plan.Node)
			for _, t := range p.tools {
				for _, name := range t.names {
					if _, known := tools[name]; !known && t.node != nil {
						tools[name] = newSymbol(name, t.node)
					}
				}
			}
		})
	}
	return &Outline{
		Agents: sortSymbols(agents), Tools: sortSymbols(tools), Models: sortSymbols(models),
		State: collectStateKeys(documents, a.root), Documents: documents,
	}
}

func newSymbol(name string, n *spec.Node) Symbol {
	d := Symbol{Name: name, Pos: n.Pos}
	for _, key := range []string{"description", "provider", "model"} {
		if at := n.Get(key); at != nil && at.Kind == spec.Scalar {
			d.Doc = cmp.Or(d.Doc, at.Value)
		}
	}
	return d
}

func sortSymbols(all map[string]Symbol) []Symbol {
	return slices.SortedFunc(maps.Values(all), func(a, b Symbol) int { return cmp.Compare(a.Name, b.Name) })
}

// An Instruction is an agent's instruction as written in the app's file.
type Instruction struct {
	// Agent is the agent's name.
	Agent string
	// File is the file's path in the app folder, Source its content.
	File   string
	Source []byte
	// Text is written: references such as ${env:NAME} are not replaced.
	Text string
	Pos  spec.Pos
}

// FindInstruction returns an agent's instruction, that of the root agent for an empty name. The
// diagnostics are the app's. Without an app that loads, the instruction and the error are nil.
func (l *Loader) FindInstruction(ctx context.Context, dir, agent string) (*Instruction, spec.Diagnostics, error) {
	var found *Instruction
	var err error
	ds := l.inspectApp(ctx, dir, func(r *resolver) { found, err = r.findInstruction(agent) })
	return found, ds, err
}

func (r *resolver) findInstruction(agent string) (*Instruction, error) {
	var at *resolvedAgent
	var names []string
	r.app.root.visitTree(func(p *resolvedAgent) {
		if at == nil && (p.name == agent || agent == "") {
			at = p
		}
		if n := p.plan.Node.Get("instruction"); n != nil && n.Kind == spec.Scalar {
			names = append(names, p.name)
		}
	})
	slices.Sort(names)
	others := "; agents with one are " + strings.Join(slices.Compact(names), ", ")
	if len(names) == 0 {
		others = ""
	}
	if at == nil {
		return nil, fmt.Errorf("unknown agent %q%s", agent, others)
	}
	n := at.plan.Node.Get("instruction")
	if computed := at.plan.Node.Get("instruction_provider"); !computed.IsNull() {
		return nil, fmt.Errorf("agent %s computes its instruction by instruction_provider in %s%s", at.name, computed.Pos, others)
	}
	if n.IsNull() || n.Kind != spec.Scalar {
		return nil, fmt.Errorf("agent %s has no instruction%s", at.name, others)
	}
	for file, source := range r.src.readFiles {
		if r.src.displayPath(file) != n.Pos.File {
			continue
		}
		if escapesFolder(file) {
			return nil, fmt.Errorf("the instruction of agent %s is in %s, outside of the app's folder", at.name, n.Pos)
		}
		if text, ok := spec.StringAt(source, n.Pos); ok {
			return &Instruction{at.name, file, source, text, n.Pos}, nil
		}
	}
	return nil, fmt.Errorf("the instruction of agent %s is not a string in an app file", at.name)
}

// ReplaceText returns the file with another instruction text; see [spec.ReplaceString].
func (i *Instruction) ReplaceText(text string) ([]byte, error) {
	return spec.ReplaceString(i.Source, i.Pos, text)
}

// WriteFile replaces the file with edited content, atomically. It is an error if the file has
// changed since it was read, or is a link.
func (i *Instruction) WriteFile(dir string, edited []byte) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	err = replaceFile(root, i.File, i.Source, edited)
	if errors.Is(err, errChanged) {
		err = errors.New("the file changed since it was read")
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", i.File, err)
	}
	return nil
}
