package loader

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"agenthost/internal/adktools"
	"agenthost/internal/limit"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// An Inspection is an app during a load, after its documents have been read, resolved and
// checked. A [FileKind] and a [Gate] read it. It is not safe for concurrent use, and must not
// be used after the function that received it returns.
type Inspection struct{ r *resolver }

// Inspect loads a folder's app and calls look before the files are closed, even if the app has
// errors. It returns the app and the diagnostics as [Loader.Load] does, with those that look
// reports.
func (l *Loader) Inspect(ctx context.Context, dir string, look func(context.Context, *Inspection)) (*runtime.App, spec.Diagnostics) {
	got := l.loadApp(ctx, dir, nil, func(ctx context.Context, r *resolver) { look(ctx, &Inspection{r}) })
	return got.app, got.ds
}

// checkFiles checks an app's files of all kinds.
func checkFiles(ctx context.Context, r *resolver) {
	for _, k := range r.loader.kinds.Files {
		if k.Check != nil {
			k.Check(ctx, &Inspection{r})
		}
	}
}

// FolderName returns the app's name, which is that of its folder.
func (in *Inspection) FolderName() string { return in.r.src.name }

// Revision returns the ID of the content read so far.
func (in *Inspection) Revision() string { return in.r.src.computeRevision() }

// Report adds problems to the load's problems. An error means that no app is built.
func (in *Inspection) Report(ds ...spec.Diagnostic) { in.r.report(ds...) }

// HasErrors reports whether the load has errors until now.
func (in *Inspection) HasErrors() bool { return in.r.ds.HasErrors() }

// Setting returns the node at a key path in app.yaml with its overlay, or nil.
func (in *Inspection) Setting(keys ...string) *spec.Node {
	n := in.r.app.appNode
	for _, key := range keys {
		n = n.Get(key)
	}
	return n
}

// Reload returns how app changes take effect, or nil for the defaults.
func (in *Inspection) Reload() *runtime.ReloadOptions { return in.r.app.doc.reloadOptions() }

// FindFiles lists the files with these suffixes, by their paths in the app, in folders that are not
// hidden. An unreadable file or folder is reported, since nothing else would show that its content
// has no effect; what names the files in the message.
func (in *Inspection) FindFiles(ctx context.Context, what string, suffixes ...string) []string {
	r := in.r
	root, err := filepath.EvalSymlinks(r.src.dir)
	var files []string
	w := newWalker(root)
	w.file = func(_, rel string, _ fs.FileInfo) {
		file := filepath.ToSlash(rel)
		switch {
		case !slices.ContainsFunc(suffixes, func(suffix string) bool { return strings.HasSuffix(file, suffix) }):
		case r.src.fileExists(file):
			files = append(files, file)
		case !isIgnored(path.Base(file)): // an editor's lock file may be a hidden dangling link
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

// DisplayPath returns an app file's path in messages.
func (in *Inspection) DisplayPath(file string) string { return in.r.src.displayPath(file) }

// ReadDocument parses one of the app's YAML files and expands its references to variables and
// secrets. The node is nil if it cannot be parsed.
func (in *Inspection) ReadDocument(file string) (*spec.Node, spec.Diagnostics) {
	return in.r.src.readDocument(file)
}

// ParseFile parses one of the app's YAML files without expanding references.
func (in *Inspection) ParseFile(file string) (*spec.Node, spec.Diagnostics) {
	return in.r.src.parseFile(file)
}

// ReadNamedFile reads the YAML file that a document names by a path from the app folder, or reports
// a path that leaves it.
func (in *Inspection) ReadNamedFile(ctx context.Context, at spec.Text) (*spec.Node, spec.Diagnostics) {
	return in.r.readModelFile(ctx, at)
}

// ReadAppFile reads an app file by the path that [Inspection.FindFiles] or [Inspection.DisplayPath]
// returns. The error is [fs.ErrNotExist] if there is none; a file above the load limit is an error
// as well. [Inspection.DescribeReadError] returns its diagnostics.
func (in *Inspection) ReadAppFile(file string) ([]byte, error) {
	rel := strings.TrimPrefix(filepath.ToSlash(file), in.r.src.displayDir+"/")
	if !in.r.src.fileExists(rel) {
		return nil, fs.ErrNotExist
	}
	b, err := in.r.src.readWithinBudget(rel)
	if err == nil && len(b) > limit.AppFile.Bytes { // cut off, it would be invalid
		return nil, errEvalFileTooLarge
	}
	return b, err
}

// DescribeReadError describes why a file could not be read.
func (in *Inspection) DescribeReadError(file string, err error) spec.Diagnostic {
	if isLimitError(err) {
		return in.r.src.budget.exceeded.toDiagnostic(in.r.src.displayDir)
	}
	return spec.Diagnostic{Pos: spec.Pos{File: in.DisplayPath(file)}, Rule: "file", Message: "cannot read the file: " + formatOSError(err)}
}

// AppNames are the names in an app that its files may refer to. Nil lists are unknown, because
// the app has errors or its tools are known only at run time.
type AppNames struct {
	// Agents are the agents with a model.
	Agents []string
	// Tools are the names that models see.
	Tools []string
	// State has a value with the right type for each key in the state schema; nil without a schema.
	State map[string]any
}

// ListNames returns the names in the app.
func (in *Inspection) ListNames() AppNames {
	r := in.r
	var names AppNames
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

// HasAgents reports whether the app's agents are known: its root agent was resolved and the load
// has no errors.
func (in *Inspection) HasAgents() bool { return in.r.app.root != nil && !in.r.ds.HasErrors() }

// SessionTools returns the tools that use only the session, without servers and programs:
// expressions, the built-in tools except memory search, and the runtime's tools.
func (in *Inspection) SessionTools() []string {
	own := []string{"set_model_response", "transfer_to_agent", "finish_task"}
	if in.r.app.root == nil {
		return own
	}
	in.r.app.root.visitTree(func(p *resolvedAgent) {
		own = append(own, modeTools(p)...)
		for _, t := range p.tools {
			if t.kind == "expr" || adktools.IsBuiltin(t.kind) && t.kind != "load_memory" {
				own = append(own, t.names...)
			}
		}
	})
	return own
}

// ResolveModel returns a model by the name that agents use. It is nil if the name is empty or has
// problems, which it reports.
func (in *Inspection) ResolveModel(ctx context.Context, name spec.Text) model.LLM {
	return in.r.resolveModel(ctx, name)
}

// HasPrice reports whether a model's calls have a cost. All have one if [Options].Model replaces
// the models.
func (in *Inspection) HasPrice(name string) bool {
	return in.r.loader.opts.Model != nil || in.r.hasPrice(name)
}

// UnpricedModels returns the models without a price that the app may call.
func (in *Inspection) UnpricedModels(ctx context.Context) []string {
	return in.r.listUnpricedModels(ctx)
}

// ReportMissingPrice reports a cost limit that requires the model's price.
func (in *Inspection) ReportMissingPrice(at *spec.Node, rule, limit, name string) {
	in.r.report(missingPrice(at, rule, limit, name))
}
