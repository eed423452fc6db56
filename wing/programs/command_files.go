package programs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/toolconfig"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// filePatterns are the artifacts that a program reads, and the files that it returns.
type filePatterns struct {
	in  []*toolconfig.ValueTemplate
	out []string
}

// artifactScheme precedes artifact names in files.in.
const artifactScheme = "artifact:"

// maxInputBytes limits the artifacts in one call.
const maxInputBytes = 32 << 20

func compileFiles(c *toolconfig.Compiler, files *commandFiles) filePatterns {
	var p filePatterns
	for _, src := range files.In {
		p.in = append(p.in, c.CompileText(src))
	}
	for _, src := range files.Out {
		p.out = append(p.out, src.Value)
	}
	return p
}

func (c *commandFiles) checkPatterns() spec.Diagnostics {
	var ds spec.Diagnostics
	for _, src := range c.In {
		if !strings.HasPrefix(src.Value, artifactScheme) {
			ds = append(ds, src.Errorf(0, "tool", "files.in must be %sNAME, got %q", artifactScheme, src.Value))
		}
	}
	for _, src := range c.Out {
		if _, err := path.Match(src.Value, ""); err != nil || src.Value == "" {
			ds = append(ds, src.Errorf(0, "tool", "invalid pattern %q", src.Value))
		}
	}
	return ds
}

// loadFiles loads a call's artifacts as files. An artifact's name is its path.
func (p *filePatterns) loadFiles(ctx context.Context, call *tool.Call) (map[string][]byte, error) {
	files, total := map[string][]byte{}, 0
	for i, src := range p.in {
		value, ok, err := src.RenderValue(call)
		if err != nil {
			return nil, fmt.Errorf("files.in[%d]: %w", i, err)
		}
		if !ok {
			continue
		}
		name := strings.TrimPrefix(template.String(value), artifactScheme)
		part, err := toolconfig.LoadArtifact(ctx, call.Artifacts, name)
		if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrInvalid) {
			return nil, fmt.Errorf("artifact %s not found", name)
		}
		if err != nil {
			return nil, fmt.Errorf("loading artifact %s: %w", name, err)
		}
		file := strings.TrimPrefix(name, session.UserPrefix)
		if !filepath.IsLocal(file) || file == "." {
			return nil, fmt.Errorf("artifact %s cannot be a file: its name is not a path in the session's folder", name)
		}
		files[file] = toolconfig.PartBytes(part)
		if total += len(files[file]); total > maxInputBytes {
			return nil, fmt.Errorf("the artifacts exceed the limit of %d MiB", maxInputBytes>>20)
		}
	}
	return files, nil
}

// saveFiles saves files as artifacts, and returns their names.
func saveFiles(ctx context.Context, to tool.Artifacts, files map[string][]byte) ([]any, error) {
	names := []any{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasPrefix(name, session.UserPrefix) {
			return nil, fmt.Errorf("file %s cannot be a session artifact: its name begins with %s", name, session.UserPrefix)
		}
		part := &genai.Part{InlineData: &genai.Blob{MIMEType: toolconfig.MediaTypeOf(name, files[name]), Data: files[name]}}
		if _, err := to.Save(ctx, name, part); err != nil {
			return nil, fmt.Errorf("saving the artifact %s: %w", name, err)
		}
		names = append(names, name)
	}
	return names, nil
}

type commandFiles struct {
	In  []spec.Text `yaml:"in" doc:"The artifacts to write to the session's folder, as artifact:NAME."`
	Out []spec.Text `yaml:"out" doc:"Patterns such as *.png: matching files that the program has changed in the session's folder become artifacts."`
}
