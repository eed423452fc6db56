package session

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/genai"
)

// A Memory is content stored for the same user's later sessions. Its JSON form is ADK's, with
// the time as a string in UTC.
type Memory struct {
	// Content is the remembered content.
	Content *genai.Content
	// Author is UserAuthor or an agent's name.
	Author string
	// Timestamp is the content's time.
	Timestamp time.Time
	// ID is the source event's id, or a generated one.
	ID string
	// CustomMetadata holds the caller's additional data.
	CustomMetadata map[string]any
}

// MemoriesOf converts events to memories: each event's texts, without thoughts. It ignores
// calls, tool responses and files.
func MemoriesOf(events []*Event) []*Memory {
	var ms []*Memory
	for _, ev := range events {
		if ev.Partial || ev.Content == nil {
			continue
		}
		content := &genai.Content{Role: ev.Content.Role}
		for _, p := range ev.Content.Parts {
			if p != nil && p.Text != "" && !p.Thought {
				content.Parts = append(content.Parts, &genai.Part{Text: p.Text})
			}
		}
		if len(content.Parts) > 0 {
			ms = append(ms, &Memory{Content: content, Author: ev.Author, Timestamp: ev.Timestamp, ID: ev.ID})
		}
	}
	return ms
}

// Text returns the memory's text without thoughts, its parts joined by spaces.
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

// MarshalJSON encodes the form used by databases and tools. It fails on values
// that JSON cannot represent.
func (m *Memory) MarshalJSON() ([]byte, error) {
	w := newEncoder(nil)
	w.OpenBracket('{')
	if m.Content != nil {
		before := w.Err
		w.StartField("content")
		writeContent(w, m.Content)
		w.AddErrorKey(before, "content")
	}
	w.WriteOptionalString("author", m.Author)
	if !m.Timestamp.IsZero() {
		w.StartField("timestamp").WriteString(m.Timestamp.UTC().Format(time.RFC3339Nano))
	}
	w.WriteOptionalString("id", m.ID)
	if len(m.CustomMetadata) > 0 {
		w.WriteMapField("customMetadata", m.CustomMetadata)
	}
	w.CloseBracket('}')
	if w.Err != nil {
		return nil, fmt.Errorf("writing memory %q: %w", m.ID, (*FieldError)(w.Err))
	}
	return w.Buf, nil
}

// UnmarshalJSON decodes the output of MarshalJSON; keys may also be in snake_case. Unknown keys
// are ignored. A failure is a [FieldError].
func (m *Memory) UnmarshalJSON(b []byte) error {
	r := newDecoder(b)
	*m = Memory{}
	r.ReadFields(func(name []byte) any {
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
	}, func(_, _ []byte) { r.SkipValue() })
	return checkEnd(r)
}

// An ArtifactVersion describes one stored artifact version. Its JSON form is ADK's.
type ArtifactVersion struct {
	// Version starts at 0.
	Version        int
	CanonicalURI   string
	CustomMetadata map[string]any
	Created        time.Time
	MIMEType       string
}

// CheckArtifactName validates an artifact name; the error is ErrInvalid. A name
// may contain folders ("reports/may.txt") and the prefix user:, but it must be
// relative and must not contain "..".
func CheckArtifactName(name string) error {
	bare := strings.TrimPrefix(name, UserPrefix)
	fail := func(why string) error {
		return fmt.Errorf("artifact name %q %s: %w", name, why, ErrInvalid)
	}
	switch {
	case bare == "":
		return fail("is empty")
	case len(name) > 512:
		return fail("exceeds the limit of 512 bytes")
	case strings.HasPrefix(bare, "/"):
		return fail("must be relative")
	case strings.ContainsAny(name, "\x00\\"):
		return fail("contains a NUL byte or a backslash")
	}
	for part := range strings.SplitSeq(bare, "/") {
		if part == "" || part == "." || part == ".." {
			return fail("contains an empty, . or .. element")
		}
	}
	return nil
}
