package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadRatios(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bench.json")
	const report = `{"results": [
  {"workload": "reached", "target": 6, "ratio": 6.5, "sides": []},
  {"workload": "missed", "target": 10, "ratio": 9.96, "sides": []},
  {"workload": "no target", "ratio": 57.7, "sides": []},
  {"workload": "bounded", "ratio": 7, "limit": {"cpuNs": 600, "allocs": 4}, "sides": [{"side": "agenthost", "cpuNs": 550, "allocs": 3.5}]},
  {"workload": "no result", "sides": [{"side": "adk-go", "error": "no disk"}]}
]}`
	if err := os.WriteFile(file, []byte(report), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := readRatios(file)
	if err != nil {
		t.Fatal(err)
	}
	want := []row{
		{"reached: 6× less CPU than adk-go", "6.50×", true},
		{"missed: 10× less CPU than adk-go", "9.96×", false},
		{"no target: measured with adk-go", "57.7×", true},
		{"bounded: measured with adk-go", "7.00×", true},
		{"bounded: at most 0.6 µs of CPU and 4 allocations", "0.55 µs, 3.5", true},
		{"no result: measured with adk-go", "0.00×; adk-go failed: no disk", false},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(row{})); diff != "" {
		t.Errorf("readRatios() (-want +got):\n%s", diff)
	}
}

func TestReadRatiosEmpty(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bench.json")
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readRatios(file); err == nil || err.Error() != "the bench report has no results" {
		t.Errorf("readRatios() = %v, want an error about missing results", err)
	}
}
