package skills

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"agenthost/internal/toolconfig"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// runScript runs a script in a copy of the skill's folder. The host grants the skill by its files'
// hash.
func (s *skillSet) runScript(ctx context.Context, call *tool.Call) (map[string]any, error) {
	skill, err := s.findSkill(call)
	if err != nil {
		return nil, err
	}
	given, _ := call.Args["file_path"].(string)
	file := given
	if !strings.HasPrefix(file, scriptsFolder) {
		file = scriptsFolder + file
	}
	if _, ok := skill.Files[file]; !ok || !isResourcePath(file) {
		return nil, countMiss(call, "SCRIPT_NOT_FOUND", "temp:_adk_skill_script_not_found_count_", fmt.Errorf("script %q of skill %s not found", cutName(given), skill.Name))
	}
	program := interpreterOf(file)
	if program == "" {
		return nil, newSkillError("UNSUPPORTED_SCRIPT_TYPE", fmt.Errorf("%s cannot run: scripts end in .py, .sh or .bash", file))
	}
	args, err := scriptArgs(call.Args)
	if err != nil {
		return nil, newSkillError("INVALID_ARGUMENTS", err)
	}
	switch {
	case s.offline:
		return nil, newSkillError("NO_CODE_EXECUTOR", toolconfig.ErrOfflineProgram)
	case s.runner == nil:
		return nil, newSkillError("NO_CODE_EXECUTOR", toolconfig.ErrNoPrograms)
	}
	run := &tool.ProgramRun{Origin: call.Origin, Args: append([]string{program, file}, args...), MaxOutput: s.maxOutput, Skill: &skill.SkillContent}
	var got *tool.ProgramResult
	_, err = tool.RunWithTimeout(ctx, call.Name, s.timeout, func(ctx context.Context) (*tool.Result, error) {
		var err error
		got, err = s.runner.RunProgram(ctx, run)
		return nil, err
	})
	if err != nil {
		return nil, newSkillError("EXECUTION_ERROR", fmt.Errorf("script %s of skill %s: %w", file, skill.Name, err))
	}
	return scriptResponse(skill.Name, file, got), nil
}

// scriptResponse returns a script's result, with ADK's status.
func scriptResponse(skill, file string, got *tool.ProgramResult) map[string]any {
	status := "success"
	switch {
	case got.Exit != 0, got.Stderr != "" && got.Stdout == "":
		status = "error"
	case got.Stderr != "":
		status = "warning"
	}
	response := map[string]any{
		"skill_name": skill, "file_path": file, "stdout": got.Stdout, "stderr": got.Stderr, "status": status, "exit_code": int64(got.Exit),
	}
	if got.Dropped > 0 {
		response["dropped_bytes"] = got.Dropped
	}
	return response
}

var validOption = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)

// scriptArgs returns a script's arguments in ADK's order: options, short options, and after -- the
// others.
func scriptArgs(given map[string]any) ([]string, error) {
	var args []string
	addOptions := func(dashes string, options map[string]any) error {
		for _, name := range slices.Sorted(maps.Keys(options)) {
			if !validOption.MatchString(name) {
				return fmt.Errorf("invalid option name %q", cutName(name))
			}
			args = append(args, dashes+name, scriptValue(options[name]))
		}
		return nil
	}
	list, _ := given["args"].([]any)
	for _, arg := range list {
		args = append(args, scriptValue(arg))
	}
	named, _ := given["args"].(map[string]any)
	short, _ := given["short_options"].(map[string]any)
	if err := errors.Join(addOptions("--", named), addOptions("-", short)); err != nil {
		return nil, err
	}
	if rest, _ := given["positional_args"].([]any); len(rest) > 0 {
		args = append(args, "--")
		for _, arg := range rest {
			args = append(args, scriptValue(arg))
		}
	}
	return args, toolconfig.CheckCommandLine(args)
}

// scriptValue formats a value as Python's str, which ADK uses, and lists and objects as JSON.
func scriptValue(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	}
	return template.String(v)
}
