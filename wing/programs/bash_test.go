package programs

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/tooltest"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// TestSplitCommand expects the words that Python's shlex.split returns.
func TestSplitCommand(t *testing.T) {
	for _, tt := range []struct {
		command string
		want    []string
		err     string
	}{
		{`ls -l`, []string{"ls", "-l"}, ""},
		{" ls\t'a b'\n\"c d\" ", []string{"ls", "a b", "c d"}, ""},
		{`a'b'"c"d`, []string{"abcd"}, ""},
		{`echo '' ""`, []string{"echo", "", ""}, ""},
		{`echo a\ b "\"\\\n$x" '\'`, []string{"echo", "a b", `"\\n$x`, `\`}, ""},
		{`ls; rm -rf / && id | cat > x $(id) # no`, []string{"ls;", "rm", "-rf", "/", "&&", "id", "|", "cat", ">", "x", "$(id)", "#", "no"}, ""},
		{`echo 'a`, nil, "invalid command: no closing quotation"},
		{`echo a\`, nil, "invalid command: no character after the backslash"},
	} {
		got, err := splitCommand(tt.command)
		if tooltest.ErrorString(err) != tt.err || err == nil && !cmp.Equal(got, tt.want) {
			t.Errorf("splitCommand(%q) = %q, %v, want %q, %s", tt.command, got, err, tt.want, tt.err)
		}
	}
}

func newBash(t *testing.T, yaml string, runner tool.ProgramRunner) tool.Tool {
	t.Helper()
	k, _ := Builtins().Lookup("ExecuteBashTool")
	n, _ := spec.Parse("tool.yaml", []byte(yaml))
	plan, ds := k.Decode(n)
	if err := ds.Err(); err != nil {
		t.Fatal(err)
	}
	env := tooltest.NewEnv()
	env.Programs = runner
	set, err := plan.Build(t.Context(), env)
	if err != nil {
		t.Fatal(err)
	}
	return tooltest.OnlyTool(t, set)
}

// TestBashConfirms expects a command to be checked first, then to be confirmed by a person, and
// then to run.
func TestBashConfirms(t *testing.T) {
	runner := &tooltest.FakeRunner{Result: tool.ProgramResult{Stdout: "out", Exit: 3, Dropped: 2}}
	bash := newBash(t, `{policy: {allowed_command_prefixes: ["git ", ls], blocked_operators: [";"], max_memory_bytes: 33554432, max_child_processes: 3}}`, runner)
	for command, want := range map[string]string{
		"rm -rf /":              `command blocked: it must begin with "git " or "ls"`,
		"ls; id":                `command blocked: it contains ";"`,
		"git 'x":                "invalid command: no closing quotation",
		"  ":                    "command is required",
		"ls a\x00b":             "argument 1 contains a null character",
		"ls " + longText(1<<18): "argument 1 exceeds the limit of 131072 bytes",
	} {
		call := tooltest.NewCall(map[string]any{"command": command}, nil)
		if _, err := bash.Run(t.Context(), call); tooltest.ErrorString(err) != want || call.Actions.RequestedToolConfirmations != nil {
			t.Errorf("%.20q: %v, want %s", command, err, want)
		}
	}
	call := tooltest.NewCall(map[string]any{"command": "git log 'a b'"}, nil)
	got, err := bash.Run(t.Context(), call)
	if err != nil || got.Response["error"] != "This tool call requires confirmation, please approve or reject." {
		t.Fatalf("Run = %v, %v", got, err)
	}
	if asked := call.Actions.RequestedToolConfirmations[call.ID]; asked == nil || asked.Hint != "Please approve or reject the command: git log 'a b'" || !call.Actions.SkipSummarization || len(runner.Runs) > 0 {
		t.Fatalf("requested %+v, runs %v", asked, runner.Runs)
	}
	call.Confirmation = &session.Confirmation{Confirmed: true}
	got, err = bash.Run(t.Context(), call)
	want := map[string]any{"stdout": "out", "stderr": "<no stderr captured>", "returncode": int64(3), "dropped_bytes": int64(2)}
	if err != nil || !cmp.Equal(got.Response, want) {
		t.Fatalf("Run = %v, %v, want %v", got, err, want)
	}
	run := runner.Runs[0]
	if !cmp.Equal(run.Args, []string{"git", "log", "a b"}) || run.Limits != (tool.ProgramLimits{Memory: 32 << 20, Processes: 3}) {
		t.Errorf("run = %+v", run)
	}
}

func longText(n int) string { return strings.Repeat("a", n) }

func TestBashFailures(t *testing.T) {
	for _, tt := range []struct {
		name   string
		runner tool.ProgramRunner
		want   string
	}{
		{"no programs", nil, "this host runs no programs"},
		{"no grant", &tooltest.FakeRunner{Err: errors.New("no grant")}, "no grant"},
		{"timeout", &tooltest.FakeRunner{Waits: true}, "execute_bash: timed out after 1ms"},
	} {
		call := tooltest.NewCall(map[string]any{"command": "ls"}, nil)
		call.Confirmation = &session.Confirmation{Confirmed: true}
		_, err := newBash(t, "{policy: {timeout_seconds: 0.001}}", tt.runner).Run(t.Context(), call)
		if tooltest.ErrorString(err) != tt.want {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
		if failed := (*tool.AnswerError)(nil); tt.name == "timeout" && (!errors.As(err, &failed) || failed.Response["error"] != "command timed out after 1ms") {
			t.Errorf("timeout: %v", failed)
		}
	}
}

// TestBashShowsCommand expects invisible characters, and those that change the text direction, to
// be escaped for the person who approves the command.
func TestBashShowsCommand(t *testing.T) {
	for command, want := range map[string]string{
		"git log 'é ü'":          "git log 'é ü'",
		"rm -rf \u202ex\u2069 /": `"rm -rf \u202ex\u2069 /"`,
		"ls\u200b\nrm":           `"ls\u200b\nrm"`,
	} {
		if got := formatCommand(command); got != want {
			t.Errorf("formatCommand(%+q) = %s, want %s", command, got, want)
		}
	}
}
