package loader

import (
	"context"
	"iter"
	"maps"
	"slices"

	"agenthost/pkg/spec"
)

// sortedParts yields parts by their names, in order.
func sortedParts(parts map[string]part) iter.Seq2[string, part] {
	return func(yield func(string, part) bool) {
		for _, name := range slices.Sorted(maps.Keys(parts)) {
			if !yield(name, parts[name]) {
				return
			}
		}
	}
}

// markUsed notes that something uses a part. The references in one that was included
// are filled in only then: what they name need not be there for an app that does
// without the part.
func (j *job) markUsed(p part) {
	if j.used[p.node] {
		return
	}
	j.used[p.node] = true
	if p.shared {
		j.report(j.src.fillReferences(p.node)...)
	}
}

// checkIrregularFiles tells of files that an app need not have, where something of the name
// is there that cannot be read: it would be passed over as if it were not.
func (j *job) checkIrregularFiles() {
	files := []string{appFile}
	if overlay := j.loader.opts.Overlay; overlay != "" {
		files = append(files, OverlayFile(overlay))
	}
	for _, file := range files {
		if j.src.isIrregular(file) {
			j.reportIrregularFile(file)
		}
	}
}

func (j *job) reportIrregularFile(file string) {
	j.report(spec.Diagnostic{
		Pos: spec.Pos{File: j.src.displayPath(file)}, Rule: "file",
		Message: "this is no file of the app: a folder, a pipe, a device, or a link that leads out of its folder",
	})
}

// checkUnused looks at parts that nothing uses: their problems are problems
// too. What was included need not be used, and is not looked at then.
func (j *job) checkUnused(ctx context.Context) {
	// Whoever uses it may stand in what is wrong.
	sure := !j.ds.HasErrors()
	unused := func(what, name string, p part) bool {
		if j.used[p.node] || p.shared {
			return false
		}
		if sure {
			j.report(p.node.Warnf("unused", "%s %s is used nowhere", what, name))
		}
		return true
	}
	for name, p := range sortedParts(j.names.agents) {
		if unused("agent", name, p) {
			j.resolveAgent(ctx, addDefaultName(p.node, name), ancestry{file: p.file, visited: []string{"use " + name}})
		}
	}
	for name, p := range sortedParts(j.names.tools) {
		if unused("tool", name, p) {
			j.resolveDeclaredTool(ctx, p, ancestry{})
		}
	}
	for name, p := range sortedParts(j.names.functions) {
		if unused("function", name, p) && j.isToolDefinition(p.node) {
			j.resolveMappedTool(ctx, p, name, ancestry{})
		}
	}
	for name, p := range sortedParts(j.names.schemas) {
		unused("schema", name, p)
	}
	for class, p := range sortedParts(j.names.defaults) {
		unused("the default of", class, p)
	}
}

// isToolDefinition says whether a function that nothing uses is plainly a tool.
func (j *job) isToolDefinition(n *spec.Node) bool {
	if n.Kind != spec.Mapping || len(n.Entries) != 1 {
		return false
	}
	_, ok := j.loader.toolKinds.Lookup(n.Entries[0].Key.Value)
	return ok
}
