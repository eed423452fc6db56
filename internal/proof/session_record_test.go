package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// parseEvents makes events of lines such as "a user hear 1": invocation, author,
// and a text, or call, or response. The id of the n-th is n.
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

// What is as it was said and shown is in order; each thing that must not be is
// counted as what it is.
func TestCompareEvents(t *testing.T) {
	noteTurn := func(invocation string) []string {
		return []string{invocation + " user note 1", invocation + " clerk call", invocation + " clerk response", invocation + " clerk Noted: note 1"}
	}
	echoTurn := func(invocation string) []string {
		return []string{invocation + " user hear 2", invocation + " clerk Heard: hear 2"}
	}
	tests := []struct {
		name    string
		stored  [][]string
		seen    string
		resumes int // of the first sentence
		want    violations
	}{
		{name: "in order", stored: [][]string{noteTurn("a"), echoTurn("b")}, seen: "1 2 3 5"},
		{name: "an event is not there", stored: [][]string{noteTurn("a"), echoTurn("b")}, seen: "1 2 3 5 6", want: violations{lost: 1}},
		{name: "an event is elsewhere", stored: [][]string{noteTurn("a"), echoTurn("b")}, seen: "2 1", want: violations{lost: 1}},
		{name: "said twice", stored: [][]string{noteTurn("a"), echoTurn("b"), echoTurn("c")}, want: violations{duplicated: 2}},
		{name: "called twice", stored: [][]string{noteTurn("a")[:2], noteTurn("a")[1:], echoTurn("b")}, want: violations{duplicated: 1}},
		{name: "answered twice", stored: [][]string{noteTurn("a"), noteTurn("a")[3:], echoTurn("b")}, want: violations{duplicated: 1}},
		{name: "between another's", stored: [][]string{noteTurn("a")[:2], echoTurn("b"), noteTurn("a")[2:]}, want: violations{mixed: 1}},
		{name: "resumed after another's", stored: [][]string{noteTurn("a")[:2], echoTurn("b"), noteTurn("a")[2:]}, resumes: 1},
		{name: "never said", stored: [][]string{noteTurn("a")}, want: violations{unanswered: 1}},
		{name: "cut off", stored: [][]string{noteTurn("a")[:3], echoTurn("b")}, want: violations{unanswered: 1}},
		{name: "without its tool", stored: [][]string{noteTurn("a")[:1], noteTurn("a")[3:], echoTurn("b")}, want: violations{unanswered: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var lines []string
			for _, s := range tt.stored {
				lines = append(lines, s...)
			}
			a := sessionRecord{[]*retryingClient{{
				seen:     strings.Fields(tt.seen),
				messages: []*message{{text: "note 1", resumes: tt.resumes}, {text: "hear 2"}},
			}}}
			if diff := cmp.Diff(tt.want, a.compareEvents(parseEvents(lines...)), cmp.AllowUnexported(violations{})); diff != "" {
				t.Errorf("judge() (-want +got):\n%s", diff)
			}
		})
	}
	stored := parseEvents(echoTurn("b")...)
	twice := sessionRecord{[]*retryingClient{{messages: []*message{{text: "hear 2"}}}}}.compareEvents(append(stored, stored[1]))
	if twice.duplicated == 0 {
		t.Error("judge() sees nothing in an id that is there twice")
	}
}
