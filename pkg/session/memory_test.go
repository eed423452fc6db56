package session

import (
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/pkg/model"
)

func TestMemoryJSON(t *testing.T) {
	at := time.Date(2026, 11, 21, 10, 0, 0, 250000000, time.FixedZone("", 3600))
	tests := []struct {
		name string
		m    Memory
		want string
	}{
		{"all", Memory{
			Content: model.UserText("a <b>"), Author: "user", Timestamp: at, ID: "e1",
			CustomMetadata: map[string]any{"n": int64(1), "f": 1.5, "l": []any{nil}},
		}, `{"content":{"parts":[{"text":"a <b>"}],"role":"user"},"author":"user","timestamp":"2026-11-21T09:00:00.25Z","id":"e1","customMetadata":{"f":1.5,"l":[null],"n":1}}`},
		{"none", Memory{}, `{}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, err := tt.m.MarshalJSON()
			if err != nil || string(b) != tt.want {
				t.Fatalf("MarshalJSON() = %s, %v, want %s", b, err, tt.want)
			}
			var back Memory
			if err := back.UnmarshalJSON(b); err != nil {
				t.Fatal(err)
			}
			tt.m.Timestamp = tt.m.Timestamp.UTC()
			if diff := cmp.Diff(tt.m, back); diff != "" {
				t.Errorf("read back (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMemoryJSONForms(t *testing.T) {
	var m Memory
	if err := json.Unmarshal([]byte(`{"custom_metadata":{"k":1},"new":[1],"content":null}`), &m); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Memory{CustomMetadata: map[string]any{"k": int64(1)}}, m); diff != "" {
		t.Errorf("memory (-want +got):\n%s", diff)
	}
	if err := json.Unmarshal([]byte(`{"author":1}`), &m); !errors.Is(err, ErrInvalid) {
		t.Errorf("a number as author: %v", err)
	}
	m = Memory{ID: "m", CustomMetadata: map[string]any{"k": math.NaN()}}
	if _, err := m.MarshalJSON(); !errors.Is(err, ErrInvalid) {
		t.Errorf("NaN: %v", err)
	}
}

func TestMemoriesOf(t *testing.T) {
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	event := func(id string, parts ...*genai.Part) *Event {
		ev := &Event{ID: id, Author: "agent", Timestamp: at}
		ev.Content = &genai.Content{Role: genai.RoleModel, Parts: parts}
		return ev
	}
	partial := event("p", &genai.Part{Text: "not yet"})
	partial.Partial = true
	got := MemoriesOf([]*Event{
		{ID: "none"},
		partial,
		event("call", &genai.Part{FunctionCall: &genai.FunctionCall{Name: "f"}}),
		event("thought", &genai.Part{Text: "hm", Thought: true}),
		event("mixed", &genai.Part{Text: "hm", Thought: true}, &genai.Part{Text: "look:"}, nil,
			&genai.Part{InlineData: &genai.Blob{MIMEType: "image/png", Data: []byte("x")}}, &genai.Part{Text: "nice"}),
	})
	want := []*Memory{{
		Content: &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{Text: "look:"}, {Text: "nice"}}},
		Author:  "agent", Timestamp: at, ID: "mixed",
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("memories (-want +got):\n%s", diff)
	}
}

func TestMemoryText(t *testing.T) {
	m := &Memory{Content: &genai.Content{Parts: []*genai.Part{{Text: "one"}, nil, {Text: "hm", Thought: true}, {}, {Text: "two"}}}}
	if got := m.Text(); got != "one two" {
		t.Errorf("Text() = %q", got)
	}
	if got := (&Memory{}).Text(); got != "" {
		t.Errorf("Text() of nothing = %q", got)
	}
}
