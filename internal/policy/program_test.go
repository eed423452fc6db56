package policy

import (
	"errors"
	"testing"
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
			err := tt.policy.CheckProgram(tt.app, Program{tt.args, tt.env})
			if runs := err == nil; runs != tt.runs {
				t.Errorf("CheckProgram = %v, want it to be granted: %v", err, tt.runs)
			}
		})
	}
}

// TestRefused expects the error to contain a line that allows the program.
func TestRefused(t *testing.T) {
	program := Program{[]string{"npx", "a: b", `"x"`, "<y>", "1"}, []string{"A", "ON"}}
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
