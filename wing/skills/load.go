package skills

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/genai"

	"agenthost/internal/toolconfig"
	"agenthost/pkg/session"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// maxResourceText limits a file that a model reads, in bytes.
const maxResourceText = 256 << 10

// maxNameEchoed limits a model's names in messages, in bytes.
const maxNameEchoed = 200

// binaryStatus is the status for a file that is not text.
const binaryStatus = "The file is binary. It is added to the next request only."

func (s *skillSet) listSkills(context.Context, *tool.Call) (map[string]any, error) {
	return map[string]any{"result": formatSkills(s.skills)}, nil
}

// findSkill returns the skill that a call names.
func (s *skillSet) findSkill(call *tool.Call) (*loadedSkill, error) {
	name, _ := call.Args["skill_name"].(string)
	if name == "" {
		return nil, newSkillError("INVALID_ARGUMENTS", errors.New("skill_name is required"))
	}
	if skill := s.byName[name]; skill != nil {
		return skill, nil
	}
	names := slices.Sorted(maps.Keys(s.byName))
	if len(names) > 50 {
		names = append(names[:50:50], "…")
	}
	return nil, newSkillError("SKILL_NOT_FOUND", fmt.Errorf("skill %q not found; the skills are: %s", cutName(name), strings.Join(names, ", ")))
}

func cutName(name string) string {
	if len(name) <= maxNameEchoed {
		return name
	}
	return strings.ToValidUTF8(name[:maxNameEchoed], "") + "…"
}

func (s *skillSet) loadSkill(ctx context.Context, call *tool.Call) (map[string]any, error) {
	skill, err := s.findSkill(call)
	if err != nil {
		return nil, err
	}
	text := skill.Instructions
	if skill.InjectsState {
		if text, err = template.Parse(text).Render(ctx, skillScope{call}); err != nil {
			return nil, newSkillError("STATE_ERROR", fmt.Errorf("skill %s: %w", skill.Name, err))
		}
	}
	if err := activateSkill(call, skill.Name); err != nil {
		return nil, err
	}
	return map[string]any{"skill_name": skill.Name, "instructions": text, "frontmatter": maps.Clone(skill.Frontmatter)}, nil
}

// skillScope has the values that a skill's author may insert: the session's state and artifacts,
// without temporary and internal values, such as credentials.
type skillScope struct{ call *tool.Call }

// Lookup returns a state value.
func (c skillScope) Lookup(key string) (any, bool) {
	if strings.HasPrefix(key, session.TempPrefix) || strings.HasPrefix(key, "_adk") || strings.HasPrefix(key, "adk_") {
		return nil, false
	}
	return c.call.State.Get(key)
}

// Artifact returns an artifact's text.
func (c skillScope) Artifact(ctx context.Context, name string) (string, bool, error) {
	part, err := toolconfig.LoadArtifact(ctx, c.call.Artifacts, name)
	if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrInvalid) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	b := toolconfig.PartBytes(part)
	if !utf8.Valid(b) || len(b) > maxResourceText {
		return "", false, fmt.Errorf("artifact %s is not text of at most %d KiB", name, maxResourceText>>10)
	}
	return string(b), true, nil
}

func (s *skillSet) loadResource(_ context.Context, call *tool.Call) (map[string]any, error) {
	skill, err := s.findSkill(call)
	if err != nil {
		return nil, err
	}
	file, _ := call.Args["file_path"].(string)
	if !isResourcePath(file) {
		return nil, newSkillError("INVALID_RESOURCE_PATH", fmt.Errorf("file_path must begin with references/, assets/ or scripts/, got %q", cutName(file)))
	}
	content, ok := skill.Files[file]
	if !ok {
		return nil, countMiss(call, "RESOURCE_NOT_FOUND", "temp:_adk_skill_resource_not_found_count_", fmt.Errorf("file %q of skill %s not found", cutName(file), skill.Name))
	}
	response := map[string]any{"skill_name": skill.Name, "file_path": file}
	if isBinary(content) {
		response["status"] = binaryStatus
		return response, nil
	}
	if dropped := len(content) - maxResourceText; dropped > 0 {
		content = []byte(strings.ToValidUTF8(string(content[:maxResourceText]), ""))
		response["dropped_bytes"] = int64(dropped)
	}
	response["content"] = string(content)
	return response, nil
}

// isResourcePath reports whether models can load the file at a path. Files are found by this path,
// and never in the file system.
func isResourcePath(file string) bool {
	inFolder := func(folder string) bool { return strings.HasPrefix(file, folder) }
	return path.Clean(file) == file && slices.ContainsFunc([]string{referencesFolder, assetsFolder, scriptsFolder}, inFolder)
}

func isBinary(content []byte) bool { return !utf8.Valid(content) || bytes.IndexByte(content, 0) >= 0 }

// countMiss returns the error for a file that does not exist. From the second miss in an invocation
// it instructs the model to stop, as in ADK.
func countMiss(call *tool.Call, code, key string, err error) error {
	key += call.Origin.InvocationID
	before, _ := call.State.Get(key)
	if updateErr := call.State.Update(session.StateUpdate{Key: key, Verb: session.UpdateAdd, Value: int64(1)}); updateErr != nil {
		return updateErr
	}
	if before == nil {
		return newSkillError(code, err)
	}
	return newSkillError(code+"_FATAL", fmt.Errorf("%w. It is not the first one: do not try other paths, and continue without the file", err))
}

// requestedFiles returns the binary files that the calls in the last content have requested.
func (s *skillSet) requestedFiles(contents []*genai.Content) []*genai.Content {
	if len(contents) == 0 || contents[len(contents)-1] == nil {
		return nil
	}
	var found []*genai.Content
	for _, part := range contents[len(contents)-1].Parts {
		if part == nil || part.FunctionResponse == nil || part.FunctionResponse.Name != s.prefixedName(loadResourceName) {
			continue
		}
		response := part.FunctionResponse.Response
		name, _ := response["skill_name"].(string)
		file, _ := response["file_path"].(string)
		skill := s.byName[name]
		if response["status"] != binaryStatus || skill == nil || !isResourcePath(file) || !isBinary(skill.Files[file]) {
			continue
		}
		blob := &genai.Part{InlineData: &genai.Blob{MIMEType: binaryTypeOf(file, skill.Files[file]), Data: skill.Files[file]}}
		found = append(found, &genai.Content{Role: genai.RoleUser, Parts: []*genai.Part{
			{Text: fmt.Sprintf("The file %s of the skill %s is:", file, name)}, toolconfig.TextOrMedia(file, blob),
		}})
	}
	return found
}

// binaryTypeOf returns a binary file's media type. Text types do not count.
func binaryTypeOf(file string, content []byte) string {
	if kind := toolconfig.MediaTypeOf(file, content); !toolconfig.IsTextType(kind) {
		return kind
	}
	kind, _, _ := strings.Cut(http.DetectContentType(content), ";")
	if toolconfig.IsTextType(kind) {
		return "application/octet-stream"
	}
	return kind
}
