package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// parseEvents builds events from lines such as "a user echo 1": invocation, author, and text,
// "call" or "response". The n-th event has the ID n.
func parseEvents(lines ...string) []event {
	events := make([]event, len(lines))
	for i, line := range lines {
		words := strings.SplitN(line, " ", 3)
		ev := event{ID: fmt.Sprint(i), InvocationID: words[0], Author: words[1]}
		ev.Content.Parts = append(ev.Content.Parts, part{Text: words[2]})
		switch words[2] {
		case "call":
			ev.Content.Parts[0] = part{Call: &struct{}{}}
		case "response":
			ev.Content.Parts[0] = part{Response: &struct{}{}}
		}
		events[i] = ev
	}
	return events
}

// A complete session has no violations. Each broken promise is counted under its own
// kind.
func TestCompareEvents(t *testing.T) {
	noteTurn := func(invocation string) []string {
		return []string{invocation + " user note 1", invocation + " clerk call", invocation + " clerk response", invocation + " clerk Noted: note 1"}
	}
	echoTurn := func(invocation string) []string {
		return []string{invocation + " user echo 2", invocation + " clerk Echo: echo 2"}
	}
	tests := []struct {
		name    string
		stored  [][]string
		seen    string
		resumes int // for the first message
		want    violations
	}{
		{name: "in order", stored: [][]string{noteTurn("a"), echoTurn("b")}, seen: "1 2 3 5"},
		{name: "missing event", stored: [][]string{noteTurn("a"), echoTurn("b")}, seen: "1 2 3 5 6", want: violations{lost: 1}},
		{name: "event out of order", stored: [][]string{noteTurn("a"), echoTurn("b")}, seen: "2 1", want: violations{lost: 1}},
		{name: "duplicate message", stored: [][]string{noteTurn("a"), echoTurn("b"), echoTurn("c")}, want: violations{duplicated: 2}},
		{name: "duplicate call", stored: [][]string{noteTurn("a")[:2], noteTurn("a")[1:], echoTurn("b")}, want: violations{duplicated: 1}},
		{name: "duplicate answer", stored: [][]string{noteTurn("a"), noteTurn("a")[3:], echoTurn("b")}, want: violations{duplicated: 1}},
		{name: "interleaved", stored: [][]string{noteTurn("a")[:2], echoTurn("b"), noteTurn("a")[2:]}, want: violations{mixed: 1}},
		{name: "resumed after another turn", stored: [][]string{noteTurn("a")[:2], echoTurn("b"), noteTurn("a")[2:]}, resumes: 1},
		{name: "missing message", stored: [][]string{noteTurn("a")}, want: violations{unanswered: 1}},
		{name: "missing answer", stored: [][]string{noteTurn("a")[:3], echoTurn("b")}, want: violations{unanswered: 1}},
		{name: "missing tool call", stored: [][]string{noteTurn("a")[:1], noteTurn("a")[3:], echoTurn("b")}, want: violations{unanswered: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var lines []string
			for _, s := range tt.stored {
				lines = append(lines, s...)
			}
			a := sessionRecord{[]*retryingClient{{
				seen:     strings.Fields(tt.seen),
				messages: []*message{{text: "note 1", resumes: tt.resumes}, {text: "echo 2"}},
			}}}
			if diff := cmp.Diff(tt.want, a.compareEvents(parseEvents(lines...)), cmp.AllowUnexported(violations{})); diff != "" {
				t.Errorf("compareEvents() (-want +got):\n%s", diff)
			}
		})
	}
	stored := parseEvents(echoTurn("b")...)
	twice := sessionRecord{[]*retryingClient{{messages: []*message{{text: "echo 2"}}}}}.compareEvents(append(stored, stored[1]))
	if twice.duplicated == 0 {
		t.Error("compareEvents() does not find a duplicate ID")
	}
}
