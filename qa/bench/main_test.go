package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agenthost/qa/bench/internal/command"
)

func TestRunUsage(t *testing.T) {
	tests := []struct {
		name string
		args string
		code int
		want string // part of the output
	}{
		{"unknown flag", "-fast", command.Usage, "flag provided but not defined: -fast"},
		{"bad setting", "-synchronous OFF", command.Usage, `invalid value "OFF" for flag -synchronous: must be FULL or NORMAL`},
		{"bad pattern", "-run (", command.Usage, "missing closing )"},
		{"stray word", "template", command.Usage, `unexpected argument "template"`},
		{"unknown workload", "-run nothing", command.Usage, `nothing matches "nothing"`},
		{"help", "-h", command.Good, "about a minute"},
		{"missing folder", "-quick -run template -json /no/such/folder/out.json", command.Failed, "bench: open /no/such/folder/out.json"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out, progress strings.Builder
			code := runCommand(t.Context(), strings.Fields(tt.args), &out, &progress)
			if code != tt.code || !strings.Contains(progress.String(), tt.want) {
				t.Errorf("runCommand(%s) = %d, %q, want %d, %q", tt.args, code, progress.String(), tt.code, tt.want)
			}
		})
	}
}

func TestRunWritesJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out.json")
	var out, progress strings.Builder
	if code := runCommand(t.Context(), []string{"-quick", "-run", "template", "-json", file}, &out, &progress); code != command.Good {
		t.Fatalf("runCommand() = %d, %s", code, progress.String())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rep Report
	if err := json.Unmarshal(text, &rep); err != nil {
		t.Fatal(err)
	}
	if len(rep.Results) != 1 || rep.Results[0].costOf(theirsName).CPU == 0 {
		t.Errorf("runCommand() wrote %s, want one workload with results of adk-go", text)
	}
}
