package tool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

// An ArtifactName is the name of an artifact that a document saves. It may contain
// placeholders. It is immutable.
type ArtifactName struct {
	paths *template.Paths
	// ofUser reports that the document, and not a placeholder, names an artifact of the
	// user.
	ofUser bool
}

// NewArtifactName returns the name of a document with its compiled placeholders. The error
// reports a name that is invalid whatever the placeholders are.
func NewArtifactName(name string, paths *template.Paths) (*ArtifactName, error) {
	n := &ArtifactName{paths: paths, ofUser: strings.HasPrefix(name, session.UserPrefix)}
	if len(paths.Refs()) > 0 {
		return n, nil
	}
	return n, session.CheckArtifactName(name)
}

// Render returns the name with the values of find. A value cannot select the artifacts of
// the user, nor leave the folder: the name of the document does.
func (n *ArtifactName) Render(find func(path string) (any, bool)) (string, error) {
	name, err := n.paths.Render(find, nil)
	if err != nil {
		return "", explainMissing(err)
	}
	if !n.ofUser && strings.HasPrefix(name, session.UserPrefix) {
		return "", fmt.Errorf("artifact %q is an artifact of the user: only a name that begins with %s in the document can save one", name, session.UserPrefix)
	}
	return name, session.CheckArtifactName(name)
}

// compileArtifactName compiles the name of an artifact in the settings of a tool. It returns
// nil if there is none, or if it is invalid, which is reported.
func (c *configCompiler) compileArtifactName(src spec.Text) *ArtifactName {
	if src.Value == "" {
		return nil
	}
	paths, err := template.ParsePaths(src.Value)
	if err == nil {
		err = c.params.checkPlaceholders(paths.Refs())
	}
	if err != nil {
		c.addDiagnostic(templateError(src, "placeholder", err))
		return nil
	}
	name, err := NewArtifactName(src.Value, paths)
	if err != nil {
		c.addDiagnostic(src.Errorf(0, "tool", "%s", err))
	}
	return name
}

// CompileArtifactName compiles the name of the artifact that a response is saved as. It may
// contain the arguments of the tool. It returns nil if there is none. The error is a
// [spec.Diagnostics].
func (d *Declared) CompileArtifactName(src spec.Text) (*ArtifactName, error) {
	read := configCompiler{params: d.params}
	return read.compileArtifactName(src), read.diagnostics.Err()
}

// SaveVerb is the field of tools and callbacks that saves artifacts.
const SaveVerb = "save_artifact"

// ArtifactSaves is the YAML of the artifacts that a tool or a callback saves: expressions by
// name, in the order of the document.
type ArtifactSaves []SavedArtifact

// A SavedArtifact is the name and the expression of an artifact.
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

// evalArtifacts evaluates the names and the values of artifacts. Null values are left out.
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
func saveArtifacts(ctx context.Context, all []newArtifact, to Artifacts) error {
	for _, a := range all {
		if _, err := to.Save(ctx, a.name, a.part); err != nil {
			return fmt.Errorf("saving the artifact %s: %w", a.name, err)
		}
	}
	return nil
}

// SaveArtifacts saves the values of expressions over vars; find returns the values of
// placeholders in names. It evaluates all of them before it saves the first one.
func SaveArtifacts(ctx context.Context, list []ArtifactSave, vars map[string]any, find func(path string) (any, bool), to Artifacts) error {
	all, err := evalArtifacts(ctx, list, vars, find)
	if err != nil {
		return err
	}
	return saveArtifacts(ctx, all, to)
}

// textTypeOf returns the media type of a string by the extension of its name. Unlike that of
// the package mime it does not depend on the machine.
func textTypeOf(name string) string {
	types := map[string]string{
		".md": "text/markdown", ".csv": "text/csv", ".html": "text/html", ".json": "application/json",
		".xml": "application/xml", ".svg": "image/svg+xml", ".yaml": "text/yaml", ".ics": "text/calendar",
	}
	if kind, ok := types[strings.ToLower(path.Ext(name))]; ok {
		return kind
	}
	return "text/plain"
}

// compileSaves compiles the artifacts that a tool saves.
func (c *configCompiler) compileSaves(saves ArtifactSaves, env template.Env) []ArtifactSave {
	var all []ArtifactSave
	for _, s := range saves {
		all = append(all, ArtifactSave{c.compileArtifactName(s.Name), c.compileExpr(s.Value, env)})
	}
	return all
}

// maxMediaType bounds a media type that a service declares.
const maxMediaType = 100

// newFile returns a body as a file, with the media type that the service declares, or else
// that of its content.
func newFile(kind string, raw []byte) *genai.Blob {
	if kind == "" || kind == "application/octet-stream" || len(kind) > maxMediaType {
		kind, _, _ = strings.Cut(http.DetectContentType(raw), ";")
	}
	return &genai.Blob{MIMEType: kind, Data: raw}
}

// isFileType reports whether a media type is binary whatever its bytes are.
func isFileType(kind string) bool {
	return isMediaType(kind) && kind != "image/svg+xml" ||
		slices.Contains([]string{"application/zip", "application/gzip", "application/x-tar"}, kind)
}

// SaveFile saves the body as an artifact of the session if it is a file, or if the settings
// name an artifact. The body is then an object that describes the artifact: artifact (its
// name), version, mime_type and size in bytes.
func (r *Response) SaveFile(ctx context.Context, call *Call, as *ArtifactName) error {
	file := r.file
	if as != nil && file == nil && len(r.raw) > 0 {
		kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		file = newFile(kind, r.raw)
	}
	if file == nil {
		return nil
	}
	name := defaultFileName(call.Name, file)
	if as != nil {
		var err error
		if name, err = as.Render(valueLookup(call)); err != nil {
			return fmt.Errorf("artifact: %w", err)
		}
	}
	version, err := call.Artifacts.Save(ctx, name, &genai.Part{InlineData: file})
	if err != nil {
		return fmt.Errorf("saving the artifact %s: %w", name, err)
	}
	r.IsJSON = true
	r.Body = map[string]any{
		"artifact": name, "version": int64(version), "mime_type": file.MIMEType, "size": int64(len(file.Data)),
	}
	return nil
}

// defaultFileName returns the name of a file of a tool. Different files have different names,
// so that concurrent calls replace nothing; the service has no influence on the rest of
// the name.
func defaultFileName(tool string, file *genai.Blob) string {
	hash := sha256.Sum256(file.Data)
	return tool + "-" + hex.EncodeToString(hash[:4]) + fileExtension(file.MIMEType)
}

// fileExtension returns the extension of a media type. Unlike that of the package mime it
// does not depend on the machine.
func fileExtension(kind string) string {
	extensions := map[string]string{
		"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp", "image/tiff": ".tiff", "image/bmp": ".bmp",
		"audio/mpeg": ".mp3", "audio/wav": ".wav", "audio/wave": ".wav", "audio/ogg": ".ogg", "audio/flac": ".flac", "audio/mp4": ".m4a",
		"video/mp4": ".mp4", "video/webm": ".webm", "application/pdf": ".pdf", "application/zip": ".zip", "application/gzip": ".gz",
		"application/x-gzip": ".gz", "application/x-tar": ".tar",
		"application/vnd.openxmlformats-officedocument.wordprocessingml.document":   ".docx",
		"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet":         ".xlsx",
		"application/vnd.openxmlformats-officedocument.presentationml.presentation": ".pptx",
	}
	if ext, ok := extensions[strings.ToLower(kind)]; ok {
		return ext
	}
	return ".bin"
}
