package toolconfig

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// An ArtifactName names an artifact that a document saves. It may contain placeholders. It is
// immutable.
type ArtifactName struct {
	paths *template.Paths
	// ofUser reports that the document, and not a placeholder, names a user artifact.
	ofUser bool
}

// NewArtifactName returns a document's name with its compiled placeholders. The error reports a
// name that is invalid whatever the placeholders are.
func NewArtifactName(name string, paths *template.Paths) (*ArtifactName, error) {
	n := &ArtifactName{paths: paths, ofUser: strings.HasPrefix(name, session.UserPrefix)}
	if len(paths.Refs()) > 0 {
		return n, nil
	}
	return n, session.CheckArtifactName(name)
}

// Render returns the name with the values that find returns. Only the document's own text can
// select the user's artifacts or a folder; a value cannot.
func (n *ArtifactName) Render(find func(path string) (any, bool)) (string, error) {
	name, err := n.paths.Render(find, nil)
	if err != nil {
		return "", ExplainMissing(err)
	}
	if !n.ofUser && strings.HasPrefix(name, session.UserPrefix) {
		return "", fmt.Errorf("artifact %q is an artifact of the user: only a name that begins with %s in the document can save one", name, session.UserPrefix)
	}
	return name, session.CheckArtifactName(name)
}

// CompileArtifactName compiles an artifact's name in a tool's settings. It returns nil if there is
// none, or if it is invalid, which is reported.
func (c *Compiler) CompileArtifactName(src spec.Text) *ArtifactName {
	if src.Value == "" {
		return nil
	}
	paths, err := template.ParsePaths(src.Value)
	if err == nil {
		err = c.Params.CheckPlaceholders(paths.Refs())
	}
	if err != nil {
		c.AddDiagnostic(tool.NewTemplateDiagnostic(src, "placeholder", err))
		return nil
	}
	name, err := NewArtifactName(src.Value, paths)
	if err != nil {
		c.AddDiagnostic(src.Errorf(0, "tool", "%s", err))
	}
	return name
}

// CompileArtifactName compiles the name of the artifact that a response is saved as. It may contain
// the tool's arguments. It returns nil if there is none. The error is a [spec.Diagnostics].
func CompileArtifactName(d *tool.Declared, src spec.Text) (*ArtifactName, error) {
	read := Compiler{Params: d.Params()}
	return read.CompileArtifactName(src), read.diagnostics.Err()
}

// SaveVerb is the field with which tools and callbacks save artifacts.
const SaveVerb = "save_artifact"

// ArtifactSaves is the YAML for the artifacts that a tool or a callback saves: expressions by name,
// in document order.
type ArtifactSaves []SavedArtifact

// A SavedArtifact is an artifact's name and expression.
type SavedArtifact struct {
	Name  spec.Text
	Value spec.Expr
}

// DecodeSpec decodes a mapping.
func (c *ArtifactSaves) DecodeSpec(n *spec.Node) spec.Diagnostics {
	var values map[string]spec.Expr
	ds := spec.Decode(n, &values)
	if ds.HasErrors() {
		return ds
	}
	for _, e := range n.Entries {
		*c = append(*c, SavedArtifact{e.Key.Text(), values[e.Key.Value]})
	}
	if len(*c) == 0 {
		ds = append(ds, n.Errorf("tool", "%s requires at least one name", SaveVerb))
	}
	return ds
}

// SchemaSpec describes the mapping.
func (c *ArtifactSaves) SchemaSpec() map[string]any {
	return map[string]any{
		"type": "object", "title": "mapping of expression", "minProperties": 1,
		"additionalProperties": (&spec.Text{}).SchemaSpec(),
	}
}

// An ArtifactSave is one artifact to save.
type ArtifactSave struct {
	Name  *ArtifactName
	Value *template.Expr
}

// A newArtifact is an artifact that is about to be saved.
type newArtifact struct {
	name string
	part *genai.Part
}

// evalArtifacts evaluates the artifacts' names and values. Null values are left out.
func evalArtifacts(ctx context.Context, list []ArtifactSave, vars map[string]any, find func(path string) (any, bool)) ([]newArtifact, error) {
	var all []newArtifact
	for _, s := range list {
		value, err := s.Value.Eval(ctx, vars)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", SaveVerb, err)
		}
		if value == nil {
			continue
		}
		name, err := s.Name.Render(find)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", SaveVerb, err)
		}
		kind := "application/json"
		if _, ok := value.(string); ok {
			kind = textTypeOf(name)
		}
		all = append(all, newArtifact{name, &genai.Part{InlineData: &genai.Blob{MIMEType: kind, Data: []byte(template.String(value))}}})
	}
	return all, nil
}

// saveArtifacts saves artifacts in order; the first error ends it.
func saveArtifacts(ctx context.Context, all []newArtifact, to tool.Artifacts) error {
	for _, a := range all {
		if _, err := to.Save(ctx, a.name, a.part); err != nil {
			return fmt.Errorf("saving the artifact %s: %w", a.name, err)
		}
	}
	return nil
}

// SaveArtifacts saves the values of expressions over vars; find returns placeholder values for
// names. It evaluates them all before it saves the first one.
func SaveArtifacts(ctx context.Context, list []ArtifactSave, vars map[string]any, find func(path string) (any, bool), to tool.Artifacts) error {
	all, err := evalArtifacts(ctx, list, vars, find)
	if err != nil {
		return err
	}
	return saveArtifacts(ctx, all, to)
}

// CompileSaves compiles the artifacts that a tool saves.
func (c *Compiler) CompileSaves(saves ArtifactSaves, env template.Env) []ArtifactSave {
	var all []ArtifactSave
	for _, s := range saves {
		all = append(all, ArtifactSave{c.CompileArtifactName(s.Name), c.CompileExpr(s.Value, env)})
	}
	return all
}
