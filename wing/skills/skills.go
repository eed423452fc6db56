// Package skills provides the tools with which models load skills, run their scripts, and use the
// tools that skills make available.
package skills

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/toolconfig"
	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
)

// Kinds lists the kind skills, which a document names as a one-key map.
func Kinds() spec.Kinds[tool.Env, tool.Set] {
	return spec.Kinds[tool.Env, tool.Set]{
		spec.NewKind("skills", "Lets the model load skills: instructions with files and scripts.", newSkills),
	}
}

// Builtins lists SkillToolset, which documents name by `name:`.
func Builtins() spec.Kinds[tool.Env, tool.Set] {
	return spec.Kinds[tool.Env, tool.Set]{
		spec.NewKind("SkillToolset", "Lets the model load skills: instructions with files and scripts.", newSkillToolset),
	}
}

// skillsConfig configures the kind "skills".
type skillsConfig struct {
	From           []spec.Text               `yaml:"from" required:"true" doc:"App folders: skills, and folders with skills. A skill is a folder with SKILL.md."`
	Tools          []string                  `yaml:"tools" enum:"list|load|resource|script" doc:"The tools to provide; default: all. script runs the scripts of the skills that the host policy grants."`
	Discovery      string                    `yaml:"discovery" enum:"lazy|eager" default:"lazy" doc:"lazy: the model calls list_skills; eager: each request lists the skills."`
	Additional     additionalTools           `yaml:"additional_tools" doc:"Tools that the model can use once a skill with their names in adk_additional_tools is loaded."`
	ToolNamePrefix string                    `yaml:"tool_name_prefix" doc:"Prefix for tool names, joined with _."`
	Confirm        toolconfig.ToolsetConfirm `yaml:"confirm" doc:"Whether a call requires confirmation by a person (human-in-the-loop): true, or an expression over args, state, user, session, invocation, agent and tool, such as tool.name == \"run_skill_script\"."`
	Timeout        spec.Duration             `yaml:"timeout" default:"5m" doc:"Maximum script duration; then all its processes are killed."`
	MaxOutput      spec.Size                 `yaml:"max_output" default:"64KiB" doc:"Maximum size of stdout and stderr each; the rest is dropped."`
}

// adkSkillsConfig are the args for SkillToolset (adk-python tools/skill_toolset.py).
type adkSkillsConfig struct {
	Skills         []spec.Text     `yaml:"skills" required:"true" doc:"App folders: skills, and folders with skills. A skill is a folder with SKILL.md."`
	ScriptTimeout  float64         `yaml:"script_timeout" default:"300" doc:"Maximum duration of a script, in seconds."`
	Additional     additionalTools `yaml:"additional_tools" doc:"Tools that the model can use once a skill with their names in adk_additional_tools is loaded."`
	DiscoveryMode  string          `yaml:"discovery_mode" enum:"lazy|eager" default:"lazy" doc:"lazy: the model calls list_skills; eager: each request lists the skills. ADK 2.10 and 2.11; newer: include_list_skills."`
	IncludeList    *bool           `yaml:"include_list_skills" doc:"true, the default: the model calls list_skills; false: each request lists the skills instead. Newer than discovery_mode."`
	ToolNamePrefix string          `yaml:"tool_name_prefix" doc:"Prefix for tool names, joined with _."`
	ToolFilter     []string        `yaml:"tool_filter" enum:"list_skills|load_skill|load_skill_resource|run_skill_script" doc:"The tools to provide, by their names without the prefix; default: all."`
}

// additionalTools are tools in any form.
type additionalTools []*spec.Node

// DecodeSpec keeps the nodes.
func (a *additionalTools) DecodeSpec(n *spec.Node) spec.Diagnostics {
	if n.Kind != spec.Sequence {
		return spec.Diagnostics{n.Errorf("type", "additional_tools must be a list of tools")}
	}
	*a = n.Items
	return nil
}

// SchemaSpec refers to the tools definition.
func (a *additionalTools) SchemaSpec() map[string]any {
	return map[string]any{"type": "array", "items": map[string]any{"$ref": "#/$defs/tool"}}
}

// Skill tool names (adk-python tools/skill_toolset.py).
const (
	listSkillsName   = "list_skills"
	loadSkillName    = "load_skill"
	loadResourceName = "load_skill_resource"
	runScriptName    = "run_skill_script"
)

var (
	_ tool.SkillConfig = (*skillsConfig)(nil)
	_ tool.SkillConfig = (*adkSkillsConfig)(nil)
	_ tool.StateConfig = (*skillsConfig)(nil)
	_ spec.Checker     = (*skillsConfig)(nil)
	_ spec.Checker     = (*adkSkillsConfig)(nil)
)

// SkillFolders returns the folders in from.
func (c *skillsConfig) SkillFolders() []spec.Text { return c.From }

// SkillFileNames returns the names that SKILL.md may have.
func (c *skillsConfig) SkillFileNames() []string { return skillFileNames() }

// ReadSkill reads a skill.
func (c *skillsConfig) ReadSkill(content tool.SkillContent, file string) (tool.Skill, spec.Diagnostics) {
	return readSkillOrNil(content, file)
}

// RunsScripts reports whether the tools include script.
func (c *skillsConfig) RunsScripts() bool {
	return len(c.Tools) == 0 || slices.Contains(c.Tools, "script")
}

// AdditionalTools returns additional_tools.
func (c *skillsConfig) AdditionalTools() []*spec.Node { return c.Additional }

// StateUse returns the confirmation's condition.
func (c *skillsConfig) StateUse(*spec.Node) tool.StateUse {
	return toolconfig.ConfirmRuleUse(c.Confirm.Expr, skillConfirmEnv())
}

func skillConfirmEnv() template.Env { return template.Env{"tool": template.Env{"name": ""}} }

// Check reports limits that no call can have.
func (c *skillsConfig) Check(n *spec.Node) spec.Diagnostics {
	ds := toolconfig.CheckTimeout(n)
	if c.MaxOutput <= 0 {
		ds = append(ds, n.Get("max_output").Errorf("value", "max_output must be more than 0"))
	}
	return append(ds, checkSkillFolders(n.Get("from"), c.From)...)
}

func checkSkillFolders(at *spec.Node, folders []spec.Text) spec.Diagnostics {
	if at.IsNull() || len(folders) > 0 {
		return nil
	}
	return spec.Diagnostics{at.Errorf("skill", "at least one skill folder is required")}
}

// SkillFolders returns skills.
func (c *adkSkillsConfig) SkillFolders() []spec.Text { return c.Skills }

// SkillFileNames returns the names that SKILL.md may have.
func (c *adkSkillsConfig) SkillFileNames() []string { return skillFileNames() }

// ReadSkill reads a skill.
func (c *adkSkillsConfig) ReadSkill(content tool.SkillContent, file string) (tool.Skill, spec.Diagnostics) {
	return readSkillOrNil(content, file)
}

// RunsScripts reports whether the tools include run_skill_script.
func (c *adkSkillsConfig) RunsScripts() bool {
	return len(c.ToolFilter) == 0 || slices.Contains(c.ToolFilter, runScriptName)
}

// AdditionalTools returns additional_tools.
func (c *adkSkillsConfig) AdditionalTools() []*spec.Node { return c.Additional }

// Check reports a timeout that no call can have.
func (c *adkSkillsConfig) Check(n *spec.Node) spec.Diagnostics {
	ds := checkSkillFolders(n.Get("skills"), c.Skills)
	if mode, list := n.Get("discovery_mode"), n.Get("include_list_skills"); !mode.IsNull() && !list.IsNull() {
		ds = append(ds, list.Errorf("skill", "include_list_skills and discovery_mode are mutually exclusive: they are names for one setting").
			WithHint("write include_list_skills: %t, and remove discovery_mode", c.DiscoveryMode != "eager"))
	}
	if !(0 < c.ScriptTimeout && c.ScriptTimeout <= toolconfig.MaxScriptSeconds) {
		ds = append(ds, n.Get("script_timeout").Errorf("value", "script_timeout must be more than 0 and at most %d seconds", toolconfig.MaxScriptSeconds))
	}
	return ds
}

func newSkills(_ context.Context, env tool.Env, c *skillsConfig) (tool.Set, error) {
	decl := &genai.FunctionDeclaration{Name: "skills", ParametersJsonSchema: map[string]any{"type": "object", "additionalProperties": true}}
	confirm, err := toolconfig.CompileConfirmRule(c.Confirm.Expr, decl, skillConfirmEnv())
	if err != nil {
		return nil, err
	}
	names := map[string]string{"list": listSkillsName, "load": loadSkillName, "resource": loadResourceName, "script": runScriptName}
	s := newSkillSet(env, c.ToolNamePrefix, c.Discovery == "eager")
	s.timeout, s.maxOutput, s.confirm = time.Duration(c.Timeout), int(c.MaxOutput), confirm
	for _, name := range c.Tools {
		s.filter = append(s.filter, names[name])
	}
	return s, s.declareTools()
}

func newSkillToolset(_ context.Context, env tool.Env, c *adkSkillsConfig) (tool.Set, error) {
	s := newSkillSet(env, c.ToolNamePrefix, c.DiscoveryMode == "eager" || c.IncludeList != nil && !*c.IncludeList)
	s.timeout, s.maxOutput, s.filter = time.Duration(c.ScriptTimeout*float64(time.Second)), defaultScriptOutput, c.ToolFilter
	return s, s.declareTools()
}

const defaultScriptOutput = 64 << 10

// A skillSet provides the skills' tools.
type skillSet struct {
	// skills are sorted by name.
	skills []*loadedSkill
	byName map[string]*loadedSkill
	prefix string
	eager  bool
	// filter names the tools to provide; none for all.
	filter    []string
	confirm   *toolconfig.ConfirmRule
	timeout   time.Duration
	maxOutput int
	runner    tool.ProgramRunner
	offline   bool
	tools     []tool.Tool
	note      string
}

func newSkillSet(env tool.Env, prefix string, eager bool) *skillSet {
	s := &skillSet{byName: map[string]*loadedSkill{}, prefix: prefix, eager: eager, runner: env.Programs, offline: env.Offline}
	for _, one := range env.Skills {
		if skill, ok := one.(*loadedSkill); ok {
			s.skills = append(s.skills, skill)
			s.byName[skill.Name] = skill
		}
	}
	return s
}

// Tools returns the skills' tools, and one that adds their rules to requests.
func (s *skillSet) Tools(context.Context) ([]tool.Tool, error) { return s.tools, nil }

// Close does nothing.
func (s *skillSet) Close() error { return nil }

// prefixedName returns a tool's name for the model.
func (s *skillSet) prefixedName(name string) string {
	if s.prefix == "" {
		return name
	}
	return s.prefix + "_" + name
}

// hasTool reports whether the set provides a tool. As in ADK, there is no list_skills if
// requests list the skills, and no run_skill_script without a script.
func (s *skillSet) hasTool(name string) bool {
	switch {
	case name == listSkillsName && s.eager:
		return false
	case name == runScriptName && !slices.ContainsFunc(s.skills, (*loadedSkill).HasScripts):
		return false
	}
	return len(s.filter) == 0 || slices.Contains(s.filter, name)
}

// declareTools declares the tools.
func (s *skillSet) declareTools() error {
	text := func(description string) map[string]any {
		return map[string]any{"type": "string", "description": description}
	}
	name := text("The name of the skill.")
	for _, one := range []struct {
		name, description string
		schema            map[string]any
		run               func(context.Context, *tool.Call) (map[string]any, error)
	}{
		{listSkillsName, "Lists the available skills with their names and descriptions.", toolconfig.ObjectSchema(map[string]any{}), s.listSkills},
		{loadSkillName, "Loads the instructions of a skill.", toolconfig.ObjectSchema(map[string]any{"skill_name": name}, "skill_name"), s.loadSkill},
		{
			loadResourceName, "Loads a file of a skill: one under references/, assets/ or scripts/.",
			toolconfig.ObjectSchema(map[string]any{"skill_name": name, "file_path": text("The path of the file in the skill, such as references/guide.md.")}, "skill_name", "file_path"),
			s.loadResource,
		},
		{runScriptName, "Runs a script of a skill, and returns its output.", scriptSchema(name), s.runScript},
	} {
		if !s.hasTool(one.name) {
			continue
		}
		d, err := declare.Tool(s.prefixedName(one.name), one.description, one.schema)
		if err != nil {
			return fmt.Errorf("tool_name_prefix: %w", err)
		}
		t := &skillTool{Declared: d, run: one.run}
		if s.confirm != nil {
			t.capabilities.Confirm = s.confirm.With(map[string]any{"tool": map[string]any{"name": one.name}})
		}
		s.tools = append(s.tools, t)
	}
	s.note = s.formatNote()
	s.tools = append(s.tools, &skillNote{toolconfig.NewDeclarer(s.prefixedName("skills"), "", nil), s})
	return nil
}

func scriptSchema(name map[string]any) map[string]any {
	return toolconfig.ObjectSchema(map[string]any{
		"skill_name": name,
		"file_path":  map[string]any{"type": "string", "description": "The path of the script in the skill, such as scripts/convert.py."},
		"args": map[string]any{
			"description": "Arguments: an object, each entry of which becomes --name value, or a list of strings.",
			"anyOf":       []any{map[string]any{"type": "object", "additionalProperties": true}, map[string]any{"type": "array", "items": map[string]any{"type": "string"}}},
		},
		"short_options":   map[string]any{"type": "object", "additionalProperties": true, "description": "Options of one letter; each entry becomes -n value."},
		"positional_args": toolconfig.StringListSchema("Arguments after the options and --."),
	}, "skill_name", "file_path")
}

// A skillTool is one of the skills' tools.
type skillTool struct {
	*tool.Declared
	capabilities tool.Capabilities
	run          func(context.Context, *tool.Call) (map[string]any, error)
}

// Capabilities returns when a call requires confirmation.
func (t *skillTool) Capabilities() tool.Capabilities { return t.capabilities }

// Run implements [tool.Tool]. Errors have ADK's error_code.
func (t *skillTool) Run(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	checked, err := t.CheckCall(ctx, call)
	if err != nil {
		return nil, newSkillError("INVALID_ARGUMENTS", err)
	}
	response, err := t.run(ctx, checked)
	if err != nil {
		return nil, err
	}
	return &tool.Result{Response: response}, nil
}

// newSkillError returns an error with ADK's response.
func newSkillError(code string, err error) error {
	return &tool.AnswerError{Err: err, Response: map[string]any{"error": spec.ClientText(err), "error_code": code}}
}

// A skillNote adds the skills' rules, and requested binary files, to requests.
type skillNote struct {
	toolconfig.Declarer
	set *skillSet
}

// Capabilities marks the tool as one that only edits requests.
func (t *skillNote) Capabilities() tool.Capabilities { return tool.Capabilities{RequestOnly: true} }

// Run always fails: the tool only edits requests.
func (t *skillNote) Run(context.Context, *tool.Call) (*tool.Result, error) {
	return nil, fmt.Errorf("%s cannot be called", t.Declaration().Name)
}

// EditRequest appends the rules, and the binary file that the model has just requested.
func (t *skillNote) EditRequest(_ context.Context, _ *tool.Call, req *model.Request) error {
	if len(t.set.skills) == 0 {
		return nil
	}
	req.AppendNote(t.set.note)
	if more := t.set.requestedFiles(req.Contents); len(more) > 0 {
		req.Contents = append(slices.Clip(req.Contents), more...) // the list may be shared
	}
	return nil
}

// formatNote returns the tools' rules for the system instruction. The wording differs from ADK's.
func (s *skillSet) formatNote() string {
	lines := []string{"You have skills: folders with instructions for certain tasks, and with files that the instructions refer to."}
	add := func(name, format string) {
		if s.hasTool(name) {
			lines = append(lines, "- "+fmt.Sprintf(format, s.prefixedName(name)))
		}
	}
	add(listSkillsName, "Call `%s` to see the names and descriptions of the skills.")
	add(loadSkillName, "If the description of a skill fits the request, call `%s` with its name before you start, and follow its instructions exactly.")
	add(loadResourceName, "Read files under references/, assets/ and scripts/ of a skill with `%s`, when its instructions refer to them.")
	add(runScriptName, "Run scripts of a skill with `%s`, and not otherwise.")
	if s.hasTool(loadSkillName) {
		lines = append(lines, "- Loading a skill answers nothing by itself: continue with the task in the same turn.")
	}
	for _, name := range []string{loadSkillName, loadResourceName, runScriptName} {
		if !s.hasTool(name) {
			lines = append(lines, fmt.Sprintf("- `%s` is not available. Do not call it, even if a skill refers to it.", s.prefixedName(name)))
		}
	}
	if s.eager {
		lines = append(lines, formatSkills(s.skills))
	}
	return strings.Join(lines, "\n")
}

// activatedKey is the state key for the skills that an agent has loaded.
func activatedKey(agent string) string { return "_adk_activated_skill_" + agent }

// activateSkill adds a skill to those that the agent has loaded. Concurrent calls may do so.
func activateSkill(call *tool.Call, name string) error {
	return call.State.Update(session.StateUpdate{
		Key: activatedKey(call.Origin.Agent), Verb: session.UpdateAppend, Value: name,
		Check: func(v any) (any, error) {
			var names []any
			loaded, _ := v.([]any)
			for _, one := range loaded {
				if !slices.Contains(names, one) {
					names = append(names, one)
				}
			}
			return names, nil
		},
	})
}

// isActivated reports whether one of the agent's loaded skills makes a tool available.
func (s *skillSet) isActivated(call *tool.Call, tool string) bool {
	loaded, _ := call.State.Get(activatedKey(call.Origin.Agent))
	names, _ := loaded.([]any)
	for _, name := range names {
		text, _ := name.(string)
		if skill := s.byName[text]; skill != nil && slices.ContainsFunc(skill.Additional, func(t spec.Text) bool { return t.Value == tool }) {
			return true
		}
	}
	return false
}
