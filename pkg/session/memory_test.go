package session

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
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

func TestCheckArtifactName(t *testing.T) {
	for _, name := range []string{
		"a", "a.txt", "reports/may.txt", "user:a.txt", "user:reports/may.txt", "..a", "a..", "a:b", "olá.txt", " ",
		strings.Repeat("a", 512),
	} {
		if err := CheckArtifactName(name); err != nil {
			t.Errorf("CheckArtifactName(%q): %v", name, err)
		}
	}
}

func TestCheckArtifactNameErrors(t *testing.T) {
	long := strings.Repeat("a", 513)
	tests := []struct {
		in, want string
	}{
		{"", `artifact name "" is empty: invalid`},
		{"user:", `artifact name "user:" is empty: invalid`},
		{long, `artifact name "` + long + `" exceeds the limit of 512 bytes: invalid`},
		{"/etc/passwd", `artifact name "/etc/passwd" must be relative: invalid`},
		{"user:/a", `artifact name "user:/a" must be relative: invalid`},
		{`a\b`, `artifact name "a\\b" contains a NUL byte or a backslash: invalid`},
		{"a\x00", `artifact name "a\x00" contains a NUL byte or a backslash: invalid`},
		{"../a", `artifact name "../a" contains an empty, . or .. element: invalid`},
		{"user:../a", `artifact name "user:../a" contains an empty, . or .. element: invalid`},
		{"a/../b", `artifact name "a/../b" contains an empty, . or .. element: invalid`},
		{"a/./b", `artifact name "a/./b" contains an empty, . or .. element: invalid`},
		{"a//b", `artifact name "a//b" contains an empty, . or .. element: invalid`},
		{"a/", `artifact name "a/" contains an empty, . or .. element: invalid`},
	}
	for _, tt := range tests {
		t.Run(tt.want, func(t *testing.T) {
			err := CheckArtifactName(tt.in)
			if err == nil || err.Error() != tt.want {
				t.Errorf("CheckArtifactName(%q): %v, want %s", tt.in, err, tt.want)
			}
			if !errors.Is(err, ErrInvalid) {
				t.Error("the error is not ErrInvalid")
			}
		})
	}
}
