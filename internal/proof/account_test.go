package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// history makes events of lines such as "a user hear 1": invocation, author,
// and a text, or call, or response. The id of the n-th is n.
func history(lines ...string) []event {
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
func TestJudge(t *testing.T) {
	note := func(invocation string) []string {
		return []string{invocation + " user note 1", invocation + " clerk call", invocation + " clerk response", invocation + " clerk Noted: note 1"}
	}
	hear := func(invocation string) []string {
		return []string{invocation + " user hear 2", invocation + " clerk Heard: hear 2"}
	}
	tests := []struct {
		name    string
		stored  [][]string
		seen    string
		resumes int // of the first sentence
		want    verdict
	}{
		{name: "in order", stored: [][]string{note("a"), hear("b")}, seen: "1 2 3 5"},
		{name: "an event is not there", stored: [][]string{note("a"), hear("b")}, seen: "1 2 3 5 6", want: verdict{lost: 1}},
		{name: "an event is elsewhere", stored: [][]string{note("a"), hear("b")}, seen: "2 1", want: verdict{lost: 1}},
		{name: "said twice", stored: [][]string{note("a"), hear("b"), hear("c")}, want: verdict{doubled: 2}},
		{name: "called twice", stored: [][]string{note("a")[:2], note("a")[1:], hear("b")}, want: verdict{doubled: 1}},
		{name: "answered twice", stored: [][]string{note("a"), note("a")[3:], hear("b")}, want: verdict{doubled: 1}},
		{name: "between another's", stored: [][]string{note("a")[:2], hear("b"), note("a")[2:]}, want: verdict{mixed: 1}},
		{name: "resumed after another's", stored: [][]string{note("a")[:2], hear("b"), note("a")[2:]}, resumes: 1},
		{name: "never said", stored: [][]string{note("a")}, want: verdict{unanswered: 1}},
		{name: "cut off", stored: [][]string{note("a")[:3], hear("b")}, want: verdict{unanswered: 1}},
		{name: "without its tool", stored: [][]string{note("a")[:1], note("a")[3:], hear("b")}, want: verdict{unanswered: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var lines []string
			for _, s := range tt.stored {
				lines = append(lines, s...)
			}
			a := account{[]*speaker{{
				seen:      strings.Fields(tt.seen),
				sentences: []*sentence{{text: "note 1", resumes: tt.resumes}, {text: "hear 2"}},
			}}}
			if diff := cmp.Diff(tt.want, a.judge(history(lines...)), cmp.AllowUnexported(verdict{})); diff != "" {
				t.Errorf("judge() (-want +got):\n%s", diff)
			}
		})
	}
	stored := history(hear("b")...)
	twice := account{[]*speaker{{sentences: []*sentence{{text: "hear 2"}}}}}.judge(append(stored, stored[1]))
	if twice.doubled == 0 {
		t.Error("judge() sees nothing in an id that is there twice")
	}
}
