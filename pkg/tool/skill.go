package tool

import "agenthost/pkg/spec"

// A SkillConfig configures a kind whose tools use the app's skills: folders with instructions and
// files. The loader finds and reads the folders.
type SkillConfig interface {
	// SkillFolders returns the app's paths with skills, or with folders that have skills.
	SkillFolders() []spec.Text
	// SkillFileNames returns the names for the file that makes a folder a skill, the usual one
	// first.
	SkillFileNames() []string
	// ReadSkill reads a skill from its folder's content. file is its SkillFileNames file's name in
	// diagnostics. The skill is nil if there are errors.
	ReadSkill(content SkillContent, file string) (Skill, spec.Diagnostics)
	// RunsScripts reports whether a tool runs the skills' scripts.
	RunsScripts() bool
	// AdditionalTools returns the tools that skills make available.
	AdditionalTools() []*spec.Node
}

// A Skill is a skill that a [SkillConfig] has read. It is immutable.
type Skill interface {
	// Content returns the skill's files. The caller must not modify them.
	Content() *SkillContent
	// Fields returns the fields at the beginning of the skill's file, with JSON types. The caller
	// must not modify them.
	Fields() map[string]any
	// HasScripts reports whether the skill has scripts that can run.
	HasScripts() bool
}

// A NamingSkill is a [Skill] whose file names tools, or reads state keys, for editors.
type NamingSkill interface {
	// ToolTexts returns the tool names in the file.
	ToolTexts() []spec.Text
	// ReadsState reports whether the placeholders in the file's text are state keys.
	ReadsState() bool
}

// A SkillContent is what a skill's folder contains.
type SkillContent struct {
	// Folder is the skill's path in the app, and Name its name.
	Folder, Name string
	// Files are the folder's files, by their paths in it.
	Files map[string][]byte
}

// A ToolGate is a set whose state decides when further tools are available.
type ToolGate interface {
	// GateTools returns a set with another set's tools, which models can only use when they are
	// available.
	GateTools(set Set) Set
}
