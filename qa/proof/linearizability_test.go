package main

import (
	"strings"
	"testing"
	"time"
)

func fromMillis(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// Sequential operations have no contradictions. Lost events and operations that
// disagree with the clock are found.
func TestFindContradictions(t *testing.T) {
	reads := func(began, ended, version int) operation {
		return operation{began: fromMillis(began), ended: fromMillis(ended), version: int64(version)}
	}
	wins := func(began, ended, version int, id string) operation {
		return operation{began: fromMillis(began), ended: fromMillis(ended), append: true, version: int64(version), won: true, id: id}
	}
	stale := func(began, ended, version int) operation {
		return operation{began: fromMillis(began), ended: fromMillis(ended), append: true, version: int64(version), id: "late"}
	}
	good := []operation{reads(0, 1, 0), wins(2, 4, 0, "a"), stale(2, 5, 0), reads(3, 6, 0), reads(3, 6, 1), wins(7, 8, 1, "b"), reads(9, 10, 2)}
	tests := []struct {
		name string
		ops  []operation
		ids  string
		want string // empty: no contradiction
	}{
		{"sequential", good, "a b", ""},
		{"lost", good, "a", "event b was acknowledged as number 2 and is missing"},
		{"swapped", good, "b a", "event a was acknowledged as number 1 and is missing"},
		{"unknown event", good, "a b c", "event number 3 was never acknowledged"},
		{"two winners", append(good, wins(2, 4, 0, "a")), "a b", "event number 1 was acknowledged twice"},
		{"old read", append(good, reads(9, 10, 1)), "a b", "version 1 was read when version 2 was acknowledged"},
		{"early read", append(good, reads(0, 1, 1)), "a b", "version 1 was read before it was written"},
		{"read of a future version", append(good, reads(9, 10, 3)), "a b", "version 3 was read before it was written"},
		{"rejected without reason", append(good, stale(0, 1, 0)), "a b", "an append to version 0 was rejected without a concurrent append"},
		{"backwards", []operation{wins(5, 6, 0, "a"), wins(1, 2, 1, "b")}, "a b", "event number 2 ended before number 1 began"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := strings.Join(findContradictions(tt.ops, strings.Fields(tt.ids)), "; ")
			if !strings.Contains(got, tt.want) || (tt.want == "") != (got == "") {
				t.Errorf("findContradictions() = %q, want %q", got, tt.want)
			}
		})
	}
}
