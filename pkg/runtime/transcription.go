package runtime

import (
	"encoding/json"
	"slices"
	"unique"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// A transcript is a sequence of transcriptions of one speaker of a live
// conversation. The zero value is empty.
type transcript struct {
	author, role, text string
	// contentCount is the number of contents for it: zero when it is blank.
	contentCount int
	// bytes estimates their memory.
	bytes int64
}

// readTranscription returns the transcription of an event without content.
func readTranscription(ev *session.Event) transcript {
	s := transcript{author: ev.Author}
	if !isEmpty(ev.Content) {
		return s
	}
	switch in, out := ev.InputTranscription, ev.OutputTranscription; {
	case in != nil && in.Text != "":
		s.role, s.text = genai.RoleUser, in.Text
	case out != nil && out.Text != "":
		s.role, s.text = genai.RoleModel, out.Text
	}
	return s
}

// mergeTranscription converts a transcription to content. Consecutive
// transcriptions of one speaker form one text, which replaces the last content
// (adk-python contents.py).
func (v *contentsView) mergeTranscription(ev *session.Event) *session.Event {
	next := readTranscription(ev)
	last := v.transcript
	v.transcript = transcript{}
	if next.text == "" {
		return ev
	}
	if next.author == last.author && next.role == last.role {
		next.text = last.text + next.text
		// Clip: pending requests still read the replaced content.
		v.contents = slices.Clip(v.contents[:len(v.contents)-last.contentCount])
		v.bytes -= last.bytes
	}
	v.transcript = next
	merged := *ev
	merged.Content = &genai.Content{Role: next.role, Parts: []*genai.Part{{Text: next.text}}}
	return &merged
}

// isScoped reports whether an event belongs to a task of ADK 2's node path, which
// only the agent of that task sees. Agents of this host have no such scope, but
// imported sessions may contain such events.
func isScoped(ev *session.Event) bool { return extraString(ev, "isolationScope") != "" }

// isLive reports whether an event comes from a live conversation. An agent
// sees its own events of it as another agent's.
func isLive(ev *session.Event) bool { return extraString(ev, "liveSessionId") != "" }

func extraString(ev *session.Event, name string) string {
	raw, ok := ev.Extra[name]
	if !ok {
		return ""
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// callIDKeeper is implemented by models whose requests keep call IDs that the
// runtime assigned. For other models these IDs are omitted.
type callIDKeeper interface{ KeepsCallIDs() bool }

func keepsIDs(llm model.LLM) bool {
	k, ok := llm.(callIDKeeper)
	return ok && k.KeepsCallIDs()
}

// contentForModel converts a content for the view's model.
func (v *contentsView) contentForModel(c *genai.Content) *genai.Content {
	given := c
	if v.delimiters != (unique.Handle[shownDelimiters]{}) {
		c = v.delimiters.Value().renderContent(c)
	}
	if !v.keepIDs {
		c = withoutOwnIDs(c)
	}
	if c != given {
		v.bytes += contentBytes(c)
	}
	return c
}
