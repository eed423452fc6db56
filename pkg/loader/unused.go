package loader

import (
	"context"
	"iter"
	"maps"
	"slices"

	"agenthost/pkg/spec"
)

// sortedParts yields declarations sorted by name.
func sortedParts(parts map[string]part) iter.Seq2[string, part] {
	return func(yield func(string, part) bool) {
		for _, name := range slices.Sorted(maps.Keys(parts)) {
			if !yield(name, parts[name]) {
				return
			}
		}
	}
}

// markUsed marks a declaration as used. References in an included declaration are
// expanded only now, so that apps need not define the variables of unused ones.
func (j *job) markUsed(p part) {
	if j.used[p.node] {
		return
	}
	j.used[p.node] = true
	if p.shared {
		j.report(j.src.fillReferences(p.node)...)
	}
}

// checkIrregularFiles reports optional files that exist but cannot be read. They would
// otherwise be ignored.
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
		Message: "not a regular file of the app: it is a folder, a pipe, a device, or a link out of the app folder",
	})
}

// checkUnused validates unused declarations and warns of them. It skips included ones.
func (j *job) checkUnused(ctx context.Context) {
	// If there are errors, the user of a declaration may be unknown.
	sure := !j.ds.HasErrors()
	unused := func(what, name string, p part) bool {
		if j.used[p.node] || p.shared {
			return false
		}
		if sure {
			j.report(p.node.Warnf("unused", "unused %s %s", what, name))
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
		unused("default of", class, p)
	}
}

// isToolDefinition reports whether an unused function is a tool.
func (j *job) isToolDefinition(n *spec.Node) bool {
	if n.Kind != spec.Mapping || len(n.Entries) != 1 {
		return false
	}
	_, ok := j.loader.toolKinds.Lookup(n.Entries[0].Key.Value)
	return ok
}
