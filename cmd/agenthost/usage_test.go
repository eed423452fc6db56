package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/command"
)

// TestUsageFresh compares every verb's help with its golden file.
func TestUsageFresh(t *testing.T) {
	for _, c := range newRootCommand(command.Env{}).Commands() {
		if c.Name() != "help" {
			t.Run(c.Name(), func(t *testing.T) { testFresh(t, filepath.Join("usage", c.Name()+".txt"), renderHelp(t, c.Name())) })
		}
	}
	testFresh(t, filepath.Join("usage", "agenthost.txt"), renderHelp(t))
}

func renderHelp(t *testing.T, verb ...string) []byte {
	t.Helper()
	var out, problems bytes.Buffer
	code := run(t.Context(), append([]string{"help"}, verb...), command.Env{Out: &out, Err: &problems})
	if code != command.ExitOK || problems.Len() > 0 {
		t.Fatalf("help %v: exit status %d\n%s", verb, code, &problems)
	}
	return out.Bytes()
}

// testFresh compares a generated file with its current content, or writes it with
// -update.
func testFresh(t *testing.T, file string, want []byte) {
	t.Helper()
	if updating() {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is not fresh: run make generate (-want +got)\n%s", file, diff)
	}
}
