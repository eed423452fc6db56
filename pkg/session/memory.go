package session

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/genai"
)

// A Memory is a piece of what was said, kept for later sessions of the same
// user. Its JSON form is ADK's, with the time as text in UTC.
type Memory struct {
	// Content is what was said.
	Content *genai.Content
	// Author is UserAuthor or an agent's name.
	Author string
	// Timestamp is when it was said.
	Timestamp time.Time
	// ID is that of the event that it came from, or one of its own.
	ID string
	// CustomMetadata is whatever was noted beside it.
	CustomMetadata map[string]any
}

// MemoriesOf makes memories of events: of each that says something, its texts,
// without thoughts. Calls, answers of tools and files are not remembered.
func MemoriesOf(events []*Event) []*Memory {
	var ms []*Memory
	for _, ev := range events {
		if ev.Partial || ev.Content == nil {
			continue
		}
		said := &genai.Content{Role: ev.Content.Role}
		for _, p := range ev.Content.Parts {
			if p != nil && p.Text != "" && !p.Thought {
				said.Parts = append(said.Parts, &genai.Part{Text: p.Text})
			}
		}
		if len(said.Parts) > 0 {
			ms = append(ms, &Memory{Content: said, Author: ev.Author, Timestamp: ev.Timestamp, ID: ev.ID})
		}
	}
	return ms
}

// Text is the memory's text without thoughts, its parts joined by spaces.
func (m *Memory) Text() string {
	if m.Content == nil {
		return ""
	}
	var texts []string
	for _, p := range m.Content.Parts {
		if p != nil && p.Text != "" && !p.Thought {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, " ")
}

// MarshalJSON writes the form that databases keep and tools answer with. It
// fails on values that JSON cannot say.
func (m *Memory) MarshalJSON() ([]byte, error) {
	var w writer
	w.openBracket('{')
	if m.Content != nil {
		before := w.err
		w.startField("content").writeContent(m.Content)
		w.addErrorKey(before, "content")
	}
	w.writeOptionalString("author", m.Author)
	if !m.Timestamp.IsZero() {
		w.startField("timestamp").writeString(m.Timestamp.UTC().Format(time.RFC3339Nano))
	}
	w.writeOptionalString("id", m.ID)
	if len(m.CustomMetadata) > 0 {
		w.writeMapField("customMetadata", m.CustomMetadata)
	}
	w.closeBracket('}')
	if w.err != nil {
		return nil, fmt.Errorf("writing memory %q: %w", m.ID, w.err)
	}
	return w.b, nil
}

// UnmarshalJSON reads what MarshalJSON wrote; keys may be in snake_case too.
// Unknown keys are ignored. A failure is a [FieldError].
func (m *Memory) UnmarshalJSON(b []byte) error {
	r := reader{b: b}
	*m = Memory{}
	r.readFields(func(name []byte) any {
		switch string(name) {
		case "content":
			return &m.Content
		case "author":
			return &m.Author
		case "timestamp":
			return &m.Timestamp
		case "id":
			return &m.ID
		case "customMetadata":
			return &m.CustomMetadata
		}
		return nil
	}, func([]byte) { r.skipValue() })
	return r.checkEnd()
}
