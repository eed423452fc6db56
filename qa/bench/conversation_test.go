package main

import (
	"context"
	"strings"
	"testing"
)

func TestRunRoundValidatesWork(t *testing.T) {
	work := conversation{sessions: 2, events: 4, turns: 2, limit: longLimit}.runRound
	tests := []struct {
		name  string
		side  fakeSide
		round func(context.Context, *lab, Side) (Cost, error)
		want  string // the error's start
	}{
		{"right", fakeSide{}, work, ""},
		{"right template", fakeSide{}, renderRound, ""},
		{"wrong answer", fakeSide{answer: "no"}, work, `warming up: warm, turn after 0 events: answer "no", want "ok"`},
		{"history missing", fakeSide{hiddenContents: 1}, work, "warming up: warm, turn after 0 events: the model received 0 contents, want 1"},
		{"chunk lost", fakeSide{lostChunks: 1}, conversation{scene: Scene{Chunks: 3}, sessions: 1, turns: 1}.runRound, "warming up: warm, turn after 0 events: got 2 chunks, want 3"},
		{"right tool turn", fakeSide{}, conversation{scene: Scene{Tool: true}, sessions: 2, turns: 2, limit: longLimit}.runRound, ""},
		{"event lost", fakeSide{lostEvents: 1}, conversation{sessions: 1, turns: 1}.runRound, "warming up: warm, turn after 2 events: the model received 2 contents, want 3"},
		{"template wrong", fakeSide{rendered: "no"}, renderRound, `rendering: got "no", want "\nKeep in mind that value 0 holds`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tt.round(t.Context(), &lab{dir: t.TempDir()}, tt.side)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("runRound() = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestVerifyEvents(t *testing.T) {
	work := conversation{sessions: 3, events: 4, turns: 2}
	tests := []struct {
		name   string
		stored []int
		timed  int
		want   string
	}{
		{"all turns", []int{8, 8, 8}, 6, ""},
		{"stopped early", []int{8, 6, 4}, 3, ""},
		{"one event too many", []int{8, 7, 4}, 3, "session-1: 7 events are stored, want 6"},
		{"one event short", []int{7, 6, 4}, 3, "session-0: 7 events are stored, want 8"},
	}
	for _, tt := range tests {
		c := &fakeChat{events: map[string]int{}}
		for i, n := range tt.stored {
			c.events[sessionID(i)] = n
		}
		got := ""
		if err := work.verifyEvents(t.Context(), c, tt.timed); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: verifyEvents(%d) = %q, want %q", tt.name, tt.timed, got, tt.want)
		}
	}
}

func TestBuildInstruction(t *testing.T) {
	text, state := buildInstruction()
	if len(text) != 2048 || len(state) != 100 || strings.Count(text, "{key_") != 10 {
		t.Errorf("buildInstruction() = %d bytes, %d keys, %d placeholders, want 2048, 100, 10",
			len(text), len(state), strings.Count(text, "{key_"))
	}
	if got := fillPlaceholders(text, state); strings.ContainsAny(got, "{}") {
		t.Errorf("fillPlaceholders() = %q, want no placeholder left", got)
	}
}
