package skills

import (
	"bytes"
	"fmt"
	"html"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// A loadedSkill is a folder with instructions for a model, in the file SKILL.md, and with files
// that they refer to. It is immutable.
type loadedSkill struct {
	tool.SkillContent
	// Description is what the model chooses the skill by.
	Description string
	// Instructions are SKILL.md's text after the frontmatter.
	Instructions string
	// Frontmatter has all fields, with JSON types.
	Frontmatter map[string]any
	// Additional names the tools that the skill makes available.
	Additional []spec.Text
	// InjectsState reports that placeholders in the instructions are state values.
	InjectsState bool
}

// skillFileNames returns the names that a skill's file may have, the usual one first.
func skillFileNames() []string { return []string{"SKILL.md", "skill.md"} }

// Content returns the skill's files.
func (s *loadedSkill) Content() *tool.SkillContent { return &s.SkillContent }

// Fields returns the frontmatter.
func (s *loadedSkill) Fields() map[string]any { return s.Frontmatter }

// Models can load the files in these folders of a skill. Scripts are also run.
const (
	referencesFolder = "references/"
	assetsFolder     = "assets/"
	scriptsFolder    = "scripts/"
)

// HasScripts reports whether the skill has scripts that can run.
func (s *loadedSkill) HasScripts() bool {
	for file := range s.Files {
		if strings.HasPrefix(file, scriptsFolder) && interpreterOf(file) != "" {
			return true
		}
	}
	return false
}

// Limits for skills (agentskills.io, specification) and for the text that a model reads.
const (
	maxSkillName          = 64
	maxSkillDescription   = 1024
	maxSkillCompatibility = 500
	maxFrontmatter        = 64 << 10
	maxInstructions       = 256 << 10
)

var validSkillName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

const frontmatterMark = "---"

// readSkill reads a skill from its folder's content. file names its SKILL.md in diagnostics. The
// skill is nil if there are errors. The rules are from adk-python skills/models.py.
func readSkill(content tool.SkillContent, file string) (*loadedSkill, spec.Diagnostics) {
	r := &skillReader{skill: &loadedSkill{SkillContent: content}, file: file}
	head, body, ok := r.splitFrontmatter(skillFile(content.Files))
	if ok {
		n, ds := spec.Parse(file, head)
		r.ds = append(r.ds, ds...)
		if !ds.HasErrors() {
			r.readFields(n)
		}
		r.skill.Instructions = body
	}
	if r.ds.HasErrors() {
		return nil, r.ds
	}
	return r.skill, r.ds
}

// readSkillOrNil returns readSkill's skill as the interface, nil if there are errors.
func readSkillOrNil(content tool.SkillContent, file string) (tool.Skill, spec.Diagnostics) {
	skill, ds := readSkill(content, file)
	if skill == nil {
		return nil, ds
	}
	return skill, ds
}

func skillFile(files map[string][]byte) []byte {
	for _, name := range skillFileNames() {
		if b, ok := files[name]; ok {
			return b
		}
	}
	return nil
}

// A skillReader reads one SKILL.md and collects its problems.
type skillReader struct {
	skill *loadedSkill
	file  string
	lines [][]byte
	ds    spec.Diagnostics
}

// reportLine reports a problem on a line, counted from 1.
func (r *skillReader) reportLine(line int, format string, args ...any) {
	d := spec.Diagnostic{Pos: spec.Pos{File: r.file, Line: line, Col: 1}, Rule: "skill", Message: fmt.Sprintf(format, args...)}
	if line <= len(r.lines) && utf8.Valid(r.lines[line-1]) {
		d.Source = string(bytes.TrimSuffix(r.lines[line-1], []byte("\r")))
	}
	r.ds = append(r.ds, d)
}

// splitFrontmatter returns the YAML between the first two lines with --- and the text after it. The
// YAML begins with an empty line, so that its line numbers match the file's.
func (r *skillReader) splitFrontmatter(b []byte) (head []byte, body string, ok bool) {
	r.lines = bytes.Split(b, []byte("\n"))
	for i, line := range r.lines {
		if !utf8.Valid(line) || bytes.IndexByte(line, 0) >= 0 {
			r.reportLine(i+1, "the file is not UTF-8 text")
			return nil, "", false
		}
	}
	text := strings.ReplaceAll(string(b), "\r\n", "\n")
	first, rest, _ := strings.Cut(text, "\n")
	if strings.TrimRight(first, " \t") != frontmatterMark {
		r.reportLine(1, "a skill must begin with a line --- and its name and description")
		return nil, "", false
	}
	end := 0
	for line := range strings.Lines(rest) {
		if strings.TrimRight(line, " \t\n") == frontmatterMark {
			body = strings.TrimSpace(rest[end+len(line):])
			return r.checkSizes(rest[:end], body)
		}
		end += len(line)
	}
	r.reportLine(1, "the frontmatter has no end: a line --- is missing")
	return nil, "", false
}

func (r *skillReader) checkSizes(head, body string) ([]byte, string, bool) {
	switch {
	case len(head) > maxFrontmatter:
		r.reportLine(1, "the frontmatter has %d bytes, which exceeds the limit of %d", len(head), maxFrontmatter)
	case len(body) > maxInstructions:
		r.reportLine(1, "the instructions have %d bytes, which exceeds the limit of %d", len(body), maxInstructions)
		r.ds[len(r.ds)-1].Hint = "move parts to files under references/, which the model loads if necessary"
	default:
		return []byte("\n" + head), body, true
	}
	return nil, "", false
}

func (r *skillReader) reportNode(n *spec.Node, format string, args ...any) {
	r.ds = append(r.ds, n.Errorf("skill", format, args...))
}

// readFields reads the frontmatter.
func (r *skillReader) readFields(n *spec.Node) {
	if n.Kind != spec.Mapping {
		r.reportLine(2, "the frontmatter must be a mapping with name and description")
		return
	}
	r.checkName(n, n.Get("name"))
	r.skill.Description = r.readText(n, "description", maxSkillDescription)
	if n.Get("description").IsNull() || strings.TrimSpace(r.skill.Description) == "" && n.Get("description").Kind == spec.Scalar {
		r.ds = append(r.ds, n.Errorf("skill", "description is required: the model chooses a skill by it"))
	}
	r.readText(n, "license", maxFrontmatter)
	r.readText(n, "compatibility", maxSkillCompatibility)
	r.readText(n, "allowed-tools", maxFrontmatter)
	r.readText(n, "allowed_tools", maxFrontmatter)
	r.readMetadata(n.Get("metadata"))
	r.skill.Frontmatter, _ = n.Any().(map[string]any)
	known := []string{"name", "description", "license", "compatibility", "allowed-tools", "allowed_tools", "metadata"}
	for _, e := range n.Entries {
		if !slices.Contains(known, e.Key.Value) {
			r.ds = append(r.ds, e.Key.Warnf("skill", "unknown field %q of a skill", e.Key.Value).WithHint("put your own fields under metadata"))
		}
		if strings.Contains(e.Value.Value, frontmatterMark) {
			r.ds = append(r.ds, e.Value.Warnf("skill", "%s contains ---, where ADK ends the frontmatter", e.Key.Value))
		}
	}
}

// checkName checks the name, which must equal the folder's.
func (r *skillReader) checkName(n, at *spec.Node) {
	if at.IsNull() || at.Kind != spec.Scalar {
		r.reportNode(n, "name is required, and must be %q, the folder's name", r.skill.Name)
		return
	}
	name := norm.NFKC.String(at.Value)
	switch {
	case utf8.RuneCountInString(name) > maxSkillName:
		r.reportNode(at, "name must have at most %d characters, got %d", maxSkillName, utf8.RuneCountInString(name))
	case !validSkillName.MatchString(name):
		r.reportNode(at, "name must be lowercase letters, digits and single hyphens between them, got %q", at.Value)
	case name != r.skill.Name:
		r.reportNode(at, "name must be the folder's name, %q, got %q", r.skill.Name, at.Value)
	}
}

// readText returns a string from the frontmatter, or "".
func (r *skillReader) readText(n *spec.Node, key string, limit int) string {
	at := n.Get(key)
	switch {
	case at.IsNull():
		return ""
	case at.Kind != spec.Scalar:
		r.reportNode(at, "%s must be a string", key)
		return ""
	case utf8.RuneCountInString(at.Value) > limit:
		r.reportNode(at, "%s must have at most %d characters, got %d", key, limit, utf8.RuneCountInString(at.Value))
	}
	return at.Value
}

func (r *skillReader) readMetadata(n *spec.Node) {
	switch {
	case n.IsNull():
		return
	case n.Kind != spec.Mapping:
		r.reportNode(n, "metadata must be a mapping")
		return
	}
	if at := n.Get("adk_inject_state"); !at.IsNull() {
		inject, ok := at.Any().(bool)
		if !ok {
			r.reportNode(at, "adk_inject_state must be true or false")
		}
		r.skill.InjectsState = inject
	}
	tools := n.Get("adk_additional_tools")
	if tools.IsNull() {
		return
	}
	if tools.Kind != spec.Sequence {
		r.reportNode(tools, "adk_additional_tools must be a list of tool names")
		return
	}
	for _, item := range tools.Items {
		if item.Kind != spec.Scalar || item.IsNull() {
			r.reportNode(item, "adk_additional_tools must be a list of tool names")
			continue
		}
		r.skill.Additional = append(r.skill.Additional, item.Text())
	}
}

// ToolTexts returns the names in adk_additional_tools.
func (s *loadedSkill) ToolTexts() []spec.Text { return s.Additional }

// ReadsState reports whether adk_inject_state is set.
func (s *loadedSkill) ReadsState() bool { return s.InjectsState }

// interpreterOf returns the program that runs a script, or "" if none does.
func interpreterOf(file string) string {
	switch path.Ext(file) {
	case ".py":
		return "python3"
	case ".sh", ".bash":
		return "bash"
	}
	return ""
}

// formatSkills lists skills for the model, in the layout from adk-python skills/prompt.py.
func formatSkills(skills []*loadedSkill) string {
	var b strings.Builder
	b.WriteString("<available_skills>\n")
	for _, s := range skills {
		fmt.Fprintf(&b, "<skill>\n<name>\n%s\n</name>\n<description>\n%s\n</description>\n</skill>\n", html.EscapeString(s.Name), html.EscapeString(s.Description))
	}
	b.WriteString("</available_skills>")
	return b.String()
}
