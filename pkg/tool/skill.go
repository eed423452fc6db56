package tool

import "agenthost/pkg/spec"

// A SkillConfig is the config of a kind whose tools use skills of the app: folders with
// instructions and files. The loader finds and reads the folders.
type SkillConfig interface {
	// SkillFolders returns the paths in the app of skills, and of folders of skills.
	SkillFolders() []spec.Text
	// SkillFileNames returns the names of the file that makes a folder a skill, the usual one
	// first.
	SkillFileNames() []string
	// ReadSkill reads a skill from the content of its folder. file is the name of the file of
	// SkillFileNames in diagnostics. The skill is nil if there are errors.
	ReadSkill(content SkillContent, file string) (Skill, spec.Diagnostics)
	// RunsScripts reports whether a tool runs the scripts of the skills.
	RunsScripts() bool
	// AdditionalTools returns the tools that skills make available.
	AdditionalTools() []*spec.Node
}

// A Skill is a skill that a [SkillConfig] has read. It is immutable.
type Skill interface {
	// Content returns the files of the skill. The caller must not modify them.
	Content() *SkillContent
	// HasScripts reports whether the skill has scripts that can run.
	HasScripts() bool
}

// A SkillContent is the content of a skill's folder.
type SkillContent struct {
	// Folder is the path of the skill in the app, and Name its name.
	Folder, Name string
	// Files are the files of the folder, by their paths in it.
	Files map[string][]byte
}

// A ToolGate is a set whose state decides when further tools are available.
type ToolGate interface {
	// GateTools returns a set with the tools of another set, which models can only use
	// when they are available.
	GateTools(set Set) Set
}
