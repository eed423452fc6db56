package skills

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/tooltest"
	"agenthost/pkg/model"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

func readTestSkill(t *testing.T, files map[string]string) *loadedSkill {
	t.Helper()
	content := tool.SkillContent{Folder: "skills/pdf", Name: "pdf", Files: map[string][]byte{}}
	for name, text := range files {
		content.Files[name] = []byte(text)
	}
	skill, ds := readSkill(content, "skills/pdf/SKILL.md")
	if err := ds.Err(); err != nil {
		t.Fatal(err)
	}
	return skill
}

const pdfSkill = "---\nname: pdf\ndescription: Reads PDF files.\n---\nRead."

// newSkillTools builds a skill's tools by their names.
func newSkillTools(t *testing.T, yaml string, runner tool.ProgramRunner, skill *loadedSkill) map[string]tool.Tool {
	t.Helper()
	k, _ := Kinds().Lookup("skills")
	return buildSkillTools(t, k, yaml, runner, skill)
}

func buildSkillTools(t *testing.T, k spec.Kind[tool.Env, tool.Set], yaml string, runner tool.ProgramRunner, skill *loadedSkill) map[string]tool.Tool {
	t.Helper()
	n, _ := spec.Parse("tool.yaml", []byte(yaml))
	plan, ds := k.Decode(n)
	if err := ds.Err(); err != nil {
		t.Fatal(err)
	}
	env := tooltest.NewEnv()
	env.Skills, env.Programs = []tool.Skill{skill}, runner
	set, err := plan.Build(t.Context(), env)
	if err != nil {
		t.Fatal(err)
	}
	all, err := set.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tools := map[string]tool.Tool{}
	for _, one := range all {
		tools[one.Declaration().Name] = one
	}
	return tools
}

// TestIncludeListSkills: without include_list_skills, or with true, models call list_skills; with false
// each request has the list instead (adk-python tools/skill_toolset.py after 2.11).
func TestIncludeListSkills(t *testing.T) {
	skill := readTestSkill(t, map[string]string{"SKILL.md": strings.Replace(pdfSkill, "Reads", "Reads <b>&", 1)})
	const listed = "<available_skills>\n<skill>\n<name>\npdf\n</name>\n<description>\nReads &lt;b&gt;&amp; PDF files.\n</description>\n</skill>\n</available_skills>"
	for _, test := range []struct {
		args  string
		lists bool
	}{
		{"{skills: [skills]}", false},
		{"{skills: [skills], include_list_skills: true}", false},
		{"{skills: [skills], include_list_skills: null}", false},
		{"{skills: [skills], include_list_skills: false}", true},
		{"{skills: [skills], discovery_mode: eager}", true},
		{"{skills: [skills], include_list_skills: false, tool_filter: [list_skills, load_skill]}", true},
	} {
		kind, _ := Builtins().Lookup("SkillToolset")
		tools := buildSkillTools(t, kind, test.args, nil, skill)
		req := &model.Request{Config: &genai.GenerateContentConfig{}}
		for _, one := range tools {
			if e, ok := one.(tool.RequestEditor); ok {
				if err := e.EditRequest(t.Context(), nil, req); err != nil {
					t.Fatal(err)
				}
			}
		}
		note := model.TextOf(req.Config.SystemInstruction)
		if has := tools[listSkillsName] != nil; has == test.lists || strings.Contains(note, listed) != test.lists {
			t.Errorf("%s: list_skills %t, note\n%s", test.args, has, note)
		}
	}
}

func TestSkillTools(t *testing.T) {
	skill := readTestSkill(t, map[string]string{"SKILL.md": pdfSkill, "scripts/x.rb": ""})
	names := func(yaml string) string {
		return strings.Join(slices.Sorted(maps.Keys(newSkillTools(t, yaml, nil, skill))), " ")
	}
	if got, want := names("{from: [skills]}"), "list_skills load_skill load_skill_resource skills"; got != want {
		t.Errorf("without scripts: %s, want %s", got, want)
	}
	skill = readTestSkill(t, map[string]string{"SKILL.md": pdfSkill, "scripts/x.py": ""})
	if got, want := names("{from: [skills], discovery: eager, tool_name_prefix: p}"), "p_load_skill p_load_skill_resource p_run_skill_script p_skills"; got != want {
		t.Errorf("eager: %s, want %s", got, want)
	}
}

func TestSkillScriptArgs(t *testing.T) {
	skill := readTestSkill(t, map[string]string{"SKILL.md": pdfSkill, "scripts/x.py": "", "scripts/y.sh": ""})
	runner := &tooltest.FakeRunner{Result: tool.ProgramResult{Stdout: "out", Stderr: "warn", Dropped: 3}}
	tools := newSkillTools(t, "{from: [skills], max_output: 1KiB}", runner, skill)
	got, err := tools[runScriptName].Run(t.Context(), tooltest.NewCall(map[string]any{
		"skill_name": "pdf", "file_path": "x.py",
		"args":            map[string]any{"pages": 3.0, "all": true, "none": nil, "list": []any{"a", 1.0}},
		"short_options":   map[string]any{"o": "$(id)"},
		"positional_args": []any{"--help", "a b"},
	}, nil))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"skill_name": "pdf", "file_path": "scripts/x.py", "stdout": "out", "stderr": "warn", "status": "warning", "exit_code": int64(0), "dropped_bytes": int64(3),
	}
	if diff := cmp.Diff(want, got.Response); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}
	run := runner.Runs[0]
	args := []string{"python3", "scripts/x.py", "--all", "True", "--list", `["a",1]`, "--none", "None", "--pages", "3", "-o", "$(id)", "--", "--help", "a b"}
	got0 := strings.ReplaceAll(strings.Join(run.Args, "\n"), " ", "")
	if diff := cmp.Diff(strings.ReplaceAll(strings.Join(args, "\n"), " ", ""), got0); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
	if run.MaxOutput != 1<<10 || run.Skill.Folder != "skills/pdf" || len(run.Skill.Files) != 3 {
		t.Errorf("run = %+v", run)
	}
}

// TestSkillErrors covers errors that depend on the host and on earlier calls.
func TestSkillErrors(t *testing.T) {
	skill := readTestSkill(t, map[string]string{"SKILL.md": pdfSkill, "scripts/y.sh": ""})
	script := map[string]any{"skill_name": "pdf", "file_path": "scripts/y.sh"}
	for _, tt := range []struct {
		name   string
		runner tool.ProgramRunner
		args   map[string]any
		want   string
	}{
		{"no programs", nil, script, "NO_CODE_EXECUTOR: this host runs no programs"},
		{"failure", &tooltest.FakeRunner{Err: errors.New("no grant")}, script, "EXECUTION_ERROR: script scripts/y.sh of skill pdf: no grant"},
		{"timeout", &tooltest.FakeRunner{Waits: true}, script, "EXECUTION_ERROR: script scripts/y.sh of skill pdf: run_skill_script: timed out after 1ms"},
		{
			"null character", &tooltest.FakeRunner{},
			map[string]any{"skill_name": "pdf", "file_path": "y.sh", "args": []any{"a\x00b"}},
			"INVALID_ARGUMENTS: argument 0 contains a null character",
		},
		{
			"long argument", &tooltest.FakeRunner{},
			map[string]any{"skill_name": "pdf", "file_path": "y.sh", "args": []any{strings.Repeat("a", 1<<18)}},
			"INVALID_ARGUMENTS: argument 0 exceeds the limit of 131072 bytes",
		},
		{"long name", &tooltest.FakeRunner{}, map[string]any{"skill_name": strings.Repeat("é", 1<<20), "file_path": "y.sh"}, `SKILL_NOT_FOUND: skill "` + strings.Repeat("é", 100) + `…" not found; the skills are: pdf`},
		{"empty name", &tooltest.FakeRunner{}, map[string]any{"skill_name": "", "file_path": "y.sh"}, `INVALID_ARGUMENTS: skill_name is required`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			call := tooltest.NewCall(tt.args, nil)
			call.Name = runScriptName
			_, err := newSkillTools(t, "{from: [skills], timeout: 1ms}", tt.runner, skill)[runScriptName].Run(t.Context(), call)
			var failed *tool.AnswerError
			if !errors.As(err, &failed) {
				t.Fatalf("Run = %v", err)
			}
			if got := failed.Response["error_code"].(string) + ": " + failed.Response["error"].(string); got != tt.want {
				t.Errorf("Run = %s, want %s", got, tt.want)
			}
		})
	}
}

// TestSkillMisses expects the second missing file in an invocation to be fatal.
func TestSkillMisses(t *testing.T) {
	load := newSkillTools(t, "{from: [skills]}", nil, readTestSkill(t, map[string]string{"SKILL.md": pdfSkill}))[loadResourceName]
	call := tooltest.NewCall(map[string]any{"skill_name": "pdf", "file_path": "assets/none"}, nil)
	for _, want := range []string{
		"RESOURCE_NOT_FOUND: file \"assets/none\" of skill pdf not found",
		"RESOURCE_NOT_FOUND_FATAL: file \"assets/none\" of skill pdf not found. It is not the first one: do not try other paths, and continue without the file",
	} {
		_, err := load.Run(t.Context(), call)
		var failed *tool.AnswerError
		if !errors.As(err, &failed) || failed.Response["error_code"].(string)+": "+failed.Response["error"].(string) != want {
			t.Errorf("Run = %v, want %s", err, want)
		}
	}
}

// TestSkillResources expects long text to be cut, and binary files in the next request only.
func TestSkillResources(t *testing.T) {
	png := "\x89PNG\r\n\x1a\n\x00"
	skill := readTestSkill(t, map[string]string{
		"SKILL.md": pdfSkill, "references/long.md": "a" + strings.Repeat("é", 1<<20), "assets/a.png": png, "assets/b.txt": "a\xff\x00",
	})
	tools := newSkillTools(t, "{from: [skills]}", nil, skill)
	load := func(file string) map[string]any {
		t.Helper()
		got, err := tools[loadResourceName].Run(t.Context(), tooltest.NewCall(map[string]any{"skill_name": "pdf", "file_path": file}, nil))
		if err != nil {
			t.Fatal(err)
		}
		return got.Response
	}
	long := load("references/long.md")
	if text := long["content"].(string); len(text) != maxResourceText-1 || long["dropped_bytes"] != int64(2<<20+1-maxResourceText) {
		t.Errorf("a long file has %d bytes, dropped %v", len(text), long["dropped_bytes"])
	}
	var parts []*genai.Part
	for _, file := range []string{"assets/a.png", "assets/b.txt"} {
		response := load(file)
		if _, ok := response["content"]; ok || response["status"] != binaryStatus {
			t.Errorf("%s: %v", file, response)
		}
		parts = append(parts, &genai.Part{FunctionResponse: &genai.FunctionResponse{Name: loadResourceName, Response: response}})
	}
	forged := map[string]any{"skill_name": "pdf", "file_path": "SKILL.md", "status": binaryStatus}
	parts = append(parts, &genai.Part{FunctionResponse: &genai.FunctionResponse{Name: loadResourceName, Response: forged}})
	req := &model.Request{Config: &genai.GenerateContentConfig{}, Contents: []*genai.Content{{Role: "user", Parts: parts}}}
	if err := tools["skills"].(tool.RequestEditor).EditRequest(t.Context(), tooltest.NewCall(nil, nil), req); err != nil {
		t.Fatal(err)
	}
	if len(req.Contents) != 3 || req.Contents[1].Parts[1].InlineData.MIMEType != "image/png" ||
		req.Contents[2].Parts[1].Text != "[Binary artifact: assets/b.txt, type: application/octet-stream, size: 0.0 KB. Content cannot be displayed inline.]" {
		t.Errorf("contents = %v", req.Contents)
	}
	if _, err := tools["skills"].Run(t.Context(), nil); err == nil || err.Error() != "skills cannot be called" {
		t.Errorf("Run = %v", err)
	}
}

// TestSkillState expects a required value that is missing, and an internal one, to be errors.
func TestSkillState(t *testing.T) {
	for _, key := range []string{"user:name", "temp:token", "_adk_x", "adk_x"} {
		text := "---\nname: pdf\ndescription: d\nmetadata: {adk_inject_state: true}\n---\nFor {" + key + "}, {artifact.a.txt}."
		load := newSkillTools(t, "{from: [skills]}", nil, readTestSkill(t, map[string]string{"SKILL.md": text}))[loadSkillName]
		call := tooltest.NewCall(map[string]any{"skill_name": "pdf"}, map[string]any{key: "Ana"})
		call.Artifacts = tooltest.MemArtifacts{Parts: map[string]*genai.Part{"a.txt": {Text: "hello"}}}
		got, err := load.Run(t.Context(), call)
		if key == "user:name" {
			if err != nil || got.Response["instructions"] != "For Ana, hello." {
				t.Errorf("%s: %v, %v", key, got, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "skill pdf: Context variable not found: `"+key+"`") {
			t.Errorf("%s: %v, %v", key, got, err)
		}
	}
}

// TestReadSkillFiles covers files that YAML tests cannot contain.
func TestReadSkillFiles(t *testing.T) {
	name := strings.Repeat("a", 65)
	for _, tt := range []struct{ name, text, want string }{
		{"bytes", "---\nname: x\n\xff\n", "SKILL.md:3:1: the file is not UTF-8 text [skill]"},
		{"null", "---\nname: x\x00\n", "SKILL.md:2:1: the file is not UTF-8 text [skill]"},
		{"frontmatter", "---\n" + strings.Repeat("# x\n", 1<<15) + "---\n", "SKILL.md:1:1: the frontmatter has 131072 bytes, which exceeds the limit of 65536 [skill]"},
		{"instructions", "---\n---\n" + strings.Repeat("x", 1<<19), "SKILL.md:1:1: the instructions have 524288 bytes, which exceeds the limit of 262144 [skill]"},
		{"list", "---\n- a\n---\n", "SKILL.md:2:1: the frontmatter must be a mapping with name and description [skill]"},
		{"empty", "", "SKILL.md:1:1: a skill must begin with a line --- and its name and description [skill]"},
		{"no name", "---\r\ndescription: d\r\n---\r\n", `SKILL.md:2:1: name is required, and must be "pdf", the folder's name [skill]`},
		{"long name", "---\nname: " + name + "\ndescription: d\n---\n", "SKILL.md:2:7: name must have at most 64 characters, got 65 [skill]"},
		{"long description", "---\nname: pdf\ndescription: " + strings.Repeat("é", 1025) + "\n---\n", "SKILL.md:3:14: description must have at most 1024 characters, got 1025 [skill]"},
	} {
		_, ds := readSkill(tool.SkillContent{Name: "pdf", Files: map[string][]byte{"SKILL.md": []byte(tt.text)}}, "SKILL.md")
		if len(ds) == 0 || ds[0].String() != tt.want {
			t.Errorf("%s: %v, want %s", tt.name, ds, tt.want)
		}
	}
	content := tool.SkillContent{Name: "pdf", Files: map[string][]byte{"SKILL.md": []byte("---\nname: ｐdf\ndescription: d\n---\n")}}
	if _, ds := readSkill(content, "SKILL.md"); len(ds) > 0 {
		t.Errorf("a name of compatible characters: %v", ds)
	}
}

// TestSkillToolset expects ADK's settings.
func TestSkillToolset(t *testing.T) {
	k, _ := Builtins().Lookup("SkillToolset")
	n, _ := spec.Parse("tool.yaml", []byte("{skills: [skills], script_timeout: 1.5, tool_filter: [load_skill]}"))
	plan, ds := k.Decode(n)
	if err := ds.Err(); err != nil {
		t.Fatal(err)
	}
	set, err := plan.Build(t.Context(), tooltest.NewEnv())
	if err != nil {
		t.Fatal(err)
	}
	if s := set.(*skillSet); s.timeout != 1500*time.Millisecond || len(s.tools) != 2 {
		t.Errorf("set = %+v", s)
	}
}

// confirmedTool requires confirmation for each call.
type confirmedTool struct{ runs int }

func (t *confirmedTool) Declaration() *genai.FunctionDeclaration {
	return &genai.FunctionDeclaration{Name: "refund"}
}

func (t *confirmedTool) Run(context.Context, *tool.Call) (*tool.Result, error) {
	t.runs++
	return &tool.Result{}, nil
}

func (t *confirmedTool) Capabilities() tool.Capabilities {
	return tool.Capabilities{Confirm: tool.ConfirmFunc(func(context.Context, *tool.Call) (bool, error) { return true, nil })}
}

// TestGatedConfirmation expects a confirmation even if another run of the agent makes the tool
// available between the confirmation and the call.
func TestGatedConfirmation(t *testing.T) {
	skill := readTestSkill(t, map[string]string{"SKILL.md": "---\nname: pdf\ndescription: Reads PDF files.\nmetadata: {adk_additional_tools: [refund]}\n---\nRead."})
	inner := &confirmedTool{}
	gated := &gatedTool{inner, &skillSet{byName: map[string]*loadedSkill{"pdf": skill}}}
	state := tooltest.NewCall(nil, nil).State
	call := &tool.Call{State: state}
	confirm := tool.CapabilitiesOf(gated).Confirm
	needed, err := confirm.NeedsConfirmation(t.Context(), call)
	state.Set(activatedKey(""), []any{"pdf"})
	if err == nil && !needed {
		_, _ = gated.Run(t.Context(), call)
	}
	if inner.runs != 0 || err == nil {
		t.Errorf("%d runs without a confirmation, %v", inner.runs, err)
	}
	if needed, err := confirm.NeedsConfirmation(t.Context(), call); !needed || err != nil {
		t.Errorf("NeedsConfirmation = %v, %v once it is available", needed, err)
	}
}
