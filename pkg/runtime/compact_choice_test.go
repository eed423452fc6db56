package runtime

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// conversation parses events, one per word and second: t is text, c1 a call, r1 its response, c1+2
// two calls, w1 a pending request about call 1, S2-4 a summary for seconds 2 to 4. A / starts an
// invocation; = marks an event with the previous event's time.
func conversation(text string) []*session.Event {
	var events []*session.Event
	invocation, now := 0, 0
	for _, word := range strings.Fields(text) {
		if word == "/" {
			invocation++
			continue
		}
		bare, same := strings.CutPrefix(word, "=")
		if !same {
			now++
		}
		ev := &session.Event{ID: bare, InvocationID: fmt.Sprint("i", invocation), Author: "a", Timestamp: time.Unix(int64(now), 0)}
		parts := []*genai.Part{{Text: fmt.Sprint(bare, now)}}
		switch id := bare[1:]; bare[0] {
		case 'c':
			parts = nil
			for id := range strings.SplitSeq(id, "+") {
				parts = append(parts, &genai.Part{FunctionCall: &genai.FunctionCall{ID: id, Name: "f"}})
			}
		case 'r':
			parts = []*genai.Part{{FunctionResponse: &genai.FunctionResponse{ID: id, Name: "f"}}}
		case 'w':
			ev.Actions.RequestedToolConfirmations = map[string]*session.Confirmation{id: {}}
		case 'S':
			ev.Author, ev.InvocationID = session.UserAuthor, "s"
			c := &session.Compaction{CompactedContent: model.ModelText("sum " + id)}
			fmt.Sscanf(id, "%f-%f", &c.StartTimestamp, &c.EndTimestamp)
			ev.Actions.Compaction = c
		}
		if bare[0] != 'S' {
			ev.Content = &genai.Content{Role: genai.RoleModel, Parts: parts}
		}
		events = append(events, ev)
	}
	return events
}

// ids are a stretch's events by their words and seconds, after the summaries that it replaces.
func (s compactionRange) ids() string {
	var ids []string
	for _, c := range s.earlier {
		ids = append(ids, model.TextOf(c.CompactedContent)+":")
	}
	for _, ev := range s.events {
		ids = append(ids, fmt.Sprint(ev.Timestamp.Unix()))
	}
	return strings.Join(ids, " ")
}

// TestSlidingWindow is the sliding window (semantics 10.2).
func TestSlidingWindow(t *testing.T) {
	tests := []struct {
		name              string
		interval, overlap int
		events, want      string
	}{
		{"too few", 2, 0, "/ t t", ""},
		{"enough", 2, 0, "/ t t / t t", "1 2 3 4"},
		{"more than enough", 2, 0, "/ t / t / t", "1 2 3"},
		{"since the last summary", 2, 0, "/ t / t S1-2 / t / t", "4 5"},
		{"too few since", 2, 0, "/ t / t S1-2 / t", ""},
		{"overlap", 2, 1, "/ t / t S1-2 / t / t", "2 4 5"},
		{"overlap beyond the beginning", 2, 9, "/ t / t S1-2 / t / t", "1 2 4 5"},
		{"around an open call", 2, 0, "/ t / t c1 / t", "1 2 4"},
		{"an answered call", 2, 0, "/ t c1 / r1 t", "1 2 3 4"},
		{"around a call that waits for a person", 2, 0, "/ t c1 r1 w1 / t", "1 5"},
		{"a person has answered", 2, 0, "/ t c1 w1 / r1", "1 2 3 4"},
		{"only open calls are new", 1, 0, "/ t S1-1 / c1", ""},
		{"before and after an open call", 1, 1, "/ t S1-1 / c1 t", "1 4"},
		{"as young as an open call", 1, 0, "/ t t =c1", "1"},
		{"an open call whose ID an earlier call had", 1, 0, "/ t c1 r1 t c1 t", "1 2 3 4 6"},
		{"one of two calls is open", 1, 0, "/ t c1+2 r1 t", "1 4"},
		{"a call that was open at the last summary", 1, 0, "/ t c1 t S1-3 / t r1", "2 5 6"},
		{"with the summaries since that call", 1, 0, "/ t c1 S1-1 / t t S4-5 / t r1", "sum 4-5: 2 7 8"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &compactor{CompactionOptions: CompactionOptions{Interval: tt.interval, Overlap: tt.overlap}}
			if got := c.slidingWindow(conversation(tt.events)).ids(); got != tt.want {
				t.Errorf("window(%s) = %q, want %q", tt.events, got, tt.want)
			}
		})
	}
}

// TestThresholdRange is what the token threshold summarises (semantics 10.3).
func TestThresholdRange(t *testing.T) {
	tests := []struct {
		name         string
		retain       int
		events, want string
	}{
		{"all", 0, "/ t t t", "1 2 3"},
		{"all but the latest", 2, "/ t t t", "1"},
		{"no more than stay", 3, "/ t t t", ""},
		{"with the last summary", 1, "/ t t S1-2 / t t", "sum 1-2: 4"},
		{"a call of an answer that stays", 1, "/ t c1 r1", "1"},
		{"one of two calls has an answer that stays", 1, "/ t c1 c2 r1 r2", "1 2 4"},
		{"two calls in one event", 1, "/ t c1+2 r1 r2", "1"},
		{"an answered call", 1, "/ t c1 r1 t", "1 2 3"},
		{"around an open call", 1, "/ t c1 t t", "1 3"},
		{"an open call before the last summary", 1, "/ t c1 t S1-3 / t t", "sum 1-3: 5"},
		{"a call that was open at the last summary", 1, "/ t c1 t S1-3 / r1 t", "sum 1-3: 2 5"},
		{"all summaries", 1, "/ t S1-1 / t S3-3 / t t", "sum 1-1: sum 3-3: 5"},
		{"nothing but a summary", 1, "/ t S1-1 t", ""},
		{"the same age", 1, "/ t t =t", "1"},
		{"all of the same age", 1, "/ t =t =t", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := thresholdRange(conversation(tt.events), tt.retain).ids(); got != tt.want {
				t.Errorf("head(%s) = %q, want %q", tt.events, got, tt.want)
			}
		})
	}
}

// TestApplyCompactions is what is read instead of a history with summaries (semantics
// 10.5).
func TestApplyCompactions(t *testing.T) {
	tests := []struct{ name, events, want string }{
		{"none", "/ t t", "t1 t2"},
		{"a summary", "/ t t S1-2 t", "sum 1-2 t4"},
		{"events that stay before it", "/ t t t S1-2 t", "sum 1-2 t3 t5"},
		{"events before its time", "/ t t t S2-3", "t1 sum 2-3"},
		{"overlap", "/ t t S1-2 t S2-4", "sum 1-2 sum 2-4"},
		{"within another", "/ t t S1-2 t t S1-5", "sum 1-5"},
		{"equal times", "/ t t S1-2 S1-2", "sum 1-2"},
		{"the next invocation within its time", "/ t S1-9 / t", "sum 1-9 t3"},
		{"of nothing that is there", "/ t S7-9 t", "t1 sum 7-9 t3"},
		{"before an open call", "/ t c1 t S1-3 t", "sum 1-3 f() t5"},
		{"before a call with a later answer", "/ t c1 t S1-3 r1 t", "sum 1-3 f() r1 t6"},
		{"before the preliminary answer of an open call", "/ t c1 r1 w1 t S1-5 t", "sum 1-5 f() r1 w14 t7"},
		{"after the answer of a call", "/ t c1 t S1-3 r1 t S2-6", "sum 1-3 sum 2-6"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			seen, _ := applyCompactions(conversation(tt.events))
			var texts []string
			for _, ev := range seen {
				texts = append(texts, textOrName(ev))
			}
			if got := strings.Join(texts, " "); got != tt.want {
				t.Errorf("compacted(%s) = %q, want %q", tt.events, got, tt.want)
			}
		})
	}
}

// textOrName returns an event's text; f() for a call, and its word for a response.
func textOrName(ev *session.Event) string {
	switch {
	case len(ev.Calls()) > 0:
		return "f()"
	case len(ev.Responses()) > 0:
		return ev.ID
	}
	return ev.Text()
}

// One event may answer all earlier calls; the open calls are found in linear time.
func TestOpenCallsLinkedByOneEvent(t *testing.T) {
	const n = 20_000
	var events []*session.Event
	responses := &genai.Content{Role: genai.RoleUser}
	for i := range n {
		call := &genai.Part{FunctionCall: &genai.FunctionCall{ID: fmt.Sprint(i), Name: "f"}}
		ev := &session.Event{}
		ev.Content = &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{call}}
		events = append(events, ev)
		if i > 0 { // the first call stays open
			responses.Parts = append(responses.Parts, &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: fmt.Sprint(i), Name: "f"}})
		}
	}
	last := &session.Event{}
	last.Content = responses
	events = append(events, last)
	if open := findOpenEvents(events); len(open) != 1 || !open[0] {
		t.Errorf("%d open events, want the first one", len(open))
	}
}
