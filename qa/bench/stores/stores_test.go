package main

import (
	"strings"
	"testing"
	"time"

	"agenthost/qa/bench/internal/engine"
)

// Both sides append, run turns and read back the appended events.
func TestSides(t *testing.T) {
	b := &bench{Engine: engine.SQLite(), length: 20 * time.Millisecond, rounds: 1, dir: t.TempDir(), progress: t.Output()}
	sides, err := b.openSides(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sides {
		t.Run(s.name, func(t *testing.T) {
			defer s.drop()
			defer s.close()
			if rate, err := b.appendAll(t.Context(), s, "append", 1); err != nil || rate <= 0 {
				t.Errorf("appendAll() = %v, %v", rate, err)
			}
			if rate, err := b.turnAll(t.Context(), s, "turn", 1); err != nil || rate <= 0 {
				t.Errorf("turnAll() = %v, %v", rate, err)
			}
			if err := fillSession(t.Context(), s, "full", 7); err != nil {
				t.Fatal(err)
			}
			if got, err := s.readSession(t.Context(), "full"); err != nil || got.eventCount() != 7 {
				t.Errorf("readSession() = %v, %v, want 7 events", got, err)
			}
		})
	}
}

func TestLines(t *testing.T) {
	tests := []struct {
		name string
		line measurement
		want string
		met  bool
	}{
		{"reached", measurement{ours: 4000, theirs: 400, setup: "s", target: 10}, "10× - - - yes", true},
		{"missed", measurement{ours: 3990, theirs: 400, setup: "s", target: 10}, "10× - - - NO", false},
		{"no target", measurement{ours: 1, theirs: 400, setup: "s"}, "- - - - -", true},
		{"no other result", measurement{ours: 4000, target: 10}, "10× - - - NO", false},
		{"small enough", measurement{ours: 99, most: 100}, "- - - - yes", true},
		{"too much", measurement{ours: 101, most: 100}, "- - - - NO", false},
		{"near the floor", measurement{ours: 1.3, floor: 1, floorLimit: 1.3}, "- 1.00 1.3× 1.3× yes", true},
		{"far from the floor", measurement{ours: 1.31, floor: 1, floorLimit: 1.3}, "- 1.00 1.31× 1.3× NO", false},
		{"no floor", measurement{floorLimit: 1.3, note: "needs cgo"}, "- needs cgo - 1.3× NO", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			if err := printLines(&b, []measurement{tt.line}); err != nil {
				t.Fatal(err)
			}
			got := strings.Join(strings.Fields(b.String()), " ")
			if !strings.HasSuffix(got, tt.want) || tt.line.met() != tt.met {
				t.Errorf("line %q, met %v, want %q, %v", got, tt.line.met(), tt.want, tt.met)
			}
		})
	}
}

func TestRunUsage(t *testing.T) {
	var out, progress strings.Builder
	if code := runCommand(t.Context(), []string{"-fast"}, &out, &progress); code != 2 || !strings.Contains(progress.String(), "-fast") {
		t.Errorf("runCommand(-fast) = %d, %q", code, progress.String())
	}
}
