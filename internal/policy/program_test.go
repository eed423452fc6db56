package policy

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/pkg/tool"
)

// TestCheckProgram expects a program to run if one grant has exactly its arguments and
// all the variables that the app sets. Grants are not combined. Without a policy, no
// program may run.
func TestCheckProgram(t *testing.T) {
	p, problems := decodePolicy(t, `grants:
- {apps: [a], commands: [[npx, -y, server], [ls]]}
- {apps: [b], commands: [[npx, -y, server]], env: [TOKEN, HOME]}
- {apps: [c], commands: [[ls]]}
- {apps: [c], commands: [[pwd]], env: [TOKEN]}
`)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for _, tt := range []struct {
		name   string
		policy *Policy
		app    string
		args   []string
		env    []string
		runs   bool
	}{
		{"granted", p, "a", []string{"npx", "-y", "server"}, nil, true},
		{"another app", p, "x", []string{"npx", "-y", "server"}, nil, false},
		{"more arguments", p, "a", []string{"npx", "-y", "server", "/"}, nil, false},
		{"fewer arguments", p, "a", []string{"npx", "-y"}, nil, false},
		{"another program", p, "a", []string{"/tmp/npx", "-y", "server"}, nil, false},
		{"a variable", p, "a", []string{"npx", "-y", "server"}, []string{"NODE_OPTIONS"}, false},
		{"granted variables", p, "b", []string{"npx", "-y", "server"}, []string{"TOKEN"}, true},
		{"one variable too many", p, "b", []string{"npx", "-y", "server"}, []string{"PATH", "TOKEN"}, false},
		{"two grants", p, "c", []string{"ls"}, []string{"TOKEN"}, false},
		{"no policy", nil, "a", []string{"ls"}, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.policy.CheckProgram(tt.app, Program{Args: tt.args, Env: tt.env})
			if runs := err == nil; runs != tt.runs {
				t.Errorf("CheckProgram = %v, want it to be granted: %v", err, tt.runs)
			}
		})
	}
}

// TestRefusedShowsGrant expects the error to contain a line that allows the program.
func TestRefusedShowsGrant(t *testing.T) {
	program := Program{Args: []string{"npx", "a: b", `"x"`, "<y>", "1"}, Env: []string{"A", "ON"}}
	var p *Policy
	refused := (*Refused)(nil)
	if !errors.As(p.CheckProgram("shop", program), &refused) {
		t.Fatal("allowed without a grant")
	}
	const want = `app shop may not run npx a: b "x" <y> 1; to allow it, add to grants in the --policy file: ` +
		`- {apps: [shop], commands: [["npx", "a: b", "\"x\"", "<y>", "1"]], env: ["A", "ON"]}`
	if got := refused.Error(); got != want {
		t.Errorf("error =\n%s\nwant\n%s", got, want)
	}
	p, problems := decodePolicy(t, "grants:\n"+refused.Line)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if err := p.CheckProgram("shop", program); err != nil {
		t.Errorf("refused despite the grant: %s", err)
	}
}

// TestProgramPatterns covers grants with patterns: * is one argument that is not an option, ...
// is any further arguments. An argument that a call has must be allowed for some value.
func TestProgramPatterns(t *testing.T) {
	fixed, variable, optional, further := tool.FixedArg, tool.VariableArg, tool.OptionalArg, tool.FurtherArgs
	for _, tt := range []struct {
		grant string
		args  []string
		kinds []tool.ArgKind
		runs  bool
	}{
		{`[go, test, "*"]`, []string{"go", "test", "./x"}, nil, true},
		{`[go, test, "*"]`, []string{"go", "test", ""}, nil, true},
		{`[go, test, "*"]`, []string{"go", "test", "./x", "./y"}, nil, false},
		{`[go, test, "*"]`, []string{"go", "test"}, nil, false},
		{`[go, test, "*"]`, []string{"go", "vet", "./x"}, nil, false},
		{`[go, test, "*"]`, []string{"go", "test", "-exec=sh"}, nil, false},
		{`[go, test, "-*"]`, []string{"go", "test", "-exec=sh"}, nil, false},
		{`[git, show, --, "*"]`, []string{"git", "show", "--", "-x"}, nil, true},
		{`[git, show, "*", --]`, []string{"git", "show", "-x", "--"}, nil, false},
		{`[git, log, ...]`, []string{"git", "log"}, nil, true},
		{`[git, log, ...]`, []string{"git", "log", "-x", "y"}, nil, true},
		{`[git, log, ...]`, []string{"git", "push"}, nil, false},
		{`[git, log, ...]`, []string{"gitx", "log"}, nil, false},
		{`[go, test, "*"]`, []string{"go", "test", "{args.x}"}, []tool.ArgKind{fixed, fixed, variable}, true},
		{`[go, test, ./x]`, []string{"go", "test", "{args.x}"}, []tool.ArgKind{fixed, fixed, variable}, true},
		{`[go, vet, "*"]`, []string{"go", "test", "{args.x}"}, []tool.ArgKind{fixed, fixed, variable}, false},
		{`[ls]`, []string{"ls", "{args.x?}"}, []tool.ArgKind{fixed, optional}, true},
		{`[ls, "*"]`, []string{"ls", "{args.x?}"}, []tool.ArgKind{fixed, optional}, true},
		{`[ls, "*"]`, []string{"ls", "{args.x}", "{args.y?}"}, []tool.ArgKind{fixed, variable, optional}, true},
		{`[ls, a, b]`, []string{"ls", "{args.y?}"}, []tool.ArgKind{fixed, optional}, false},
		{`[git, log, "*"]`, []string{"git", "log", ""}, []tool.ArgKind{fixed, fixed, further}, true},
		{`[git, push]`, []string{"git", "log", ""}, []tool.ArgKind{fixed, fixed, further}, false},
	} {
		p, problems := decodePolicy(t, "grants: [{commands: ["+tt.grant+"]}]")
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		if err := p.CheckProgram("a", Program{Args: tt.args, Kinds: tt.kinds}); (err == nil) != tt.runs {
			t.Errorf("%s, %q: %v, want it to be granted: %v", tt.grant, tt.args, err, tt.runs)
		}
	}
}

// TestProgramSandbox expects the first grant that allows a program to decide about its
// sandbox. A grant with a sandbox is none for a program that cannot be confined.
func TestProgramSandbox(t *testing.T) {
	p, problems := decodePolicy(t, `grants:
- {commands: [[a], [b]], sandbox: {memory: 32MiB, processes: 3, network: host, read: [/usr, app], write: []}}
- {commands: [[a, "..."]]}
- {skills: [{folder: skills/pdf/, sha256: "sha256:ABCD"}], sandbox: {}}
`)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	got, err := p.GrantProgram("x", Program{Args: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	want := Sandbox{Network: true, Read: []string{"/usr", "app"}, Memory: 32 << 20, Processes: 3, FileSize: 64 << 20}
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Errorf("sandbox (-want +got):\n%s", diff)
	}
	if got, err := p.GrantProgram("x", Program{Args: []string{"a", "b"}}); got != nil || err != nil {
		t.Errorf("GrantProgram = %v, %v, want no sandbox", got, err)
	}
	if got, err := p.GrantProgram("x", Program{Args: []string{"a"}, Unconfined: true}); got != nil || err != nil {
		t.Errorf("GrantProgram = %v, %v, want the second grant", got, err)
	}
	const refused = "app x may not run b (MCP server programs cannot run in the grant's sandbox)"
	var denied *Refused
	if _, err := p.GrantProgram("x", Program{Args: []string{"b"}, Unconfined: true}); !errors.As(err, &denied) || denied.Message() != refused {
		t.Errorf("GrantProgram = %v", err)
	}
	if got, err := p.GrantSkill("x", "skills/pdf", "abcd"); got == nil || err != nil || got.Write[0] != WorkFolder {
		t.Errorf("GrantSkill = %v, %v", got, err)
	}
	const line = `- {apps: [x], skills: [{folder: "skills/pdf", sha256: abce}], sandbox: {}}`
	if _, err := p.GrantSkill("x", "skills/pdf", "abce"); !errors.As(err, &denied) || denied.Line != line {
		t.Errorf("GrantSkill = %v", err)
	}
}
