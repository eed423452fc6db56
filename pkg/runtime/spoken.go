package runtime

import (
	"encoding/json"
	"slices"
	"unique"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// spoken is a run of transcriptions that one side of a live conversation left:
// what was said, in pieces. The zero value is none.
type spoken struct {
	author, role, text string
	// told is how many contents stand for it: none when it is blank.
	told int
	// bytes is about what they take.
	bytes int64
}

// transcription is what an event without content holds of spoken words.
func transcription(ev *session.Event) spoken {
	s := spoken{author: ev.Author}
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

// unfold puts a transcription into words that the model reads. Pieces of the
// same side that follow each other are one text, which takes the place of what
// the contents end with (adk-python contents.py).
func (v *view) unfold(ev *session.Event) *session.Event {
	piece := transcription(ev)
	last := v.spoken
	v.spoken = spoken{}
	if piece.text == "" {
		return ev
	}
	if piece.author == last.author && piece.role == last.role {
		piece.text = last.text + piece.text
		// Clipped: requests under way read the content that goes.
		v.contents = slices.Clip(v.contents[:len(v.contents)-last.told])
		v.bytes -= last.bytes
	}
	v.spoken = piece
	words := *ev
	words.Content = &genai.Content{Role: piece.role, Parts: []*genai.Part{{Text: piece.text}}}
	return &words
}

// isScoped says whether an event belongs to a task of ADK 2's node path, which
// only the agent of that task sees. No agent of this host has such a scope;
// stored sessions may hold the events.
func isScoped(ev *session.Event) bool { return extraText(ev, "isolationScope") != "" }

// isLive says whether an event comes from a live conversation. What an agent
// said there, it hears of as of another's words.
func isLive(ev *session.Event) bool { return extraText(ev, "liveSessionId") != "" }

func extraText(ev *session.Event, name string) string {
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

// idKeeper is what a model implements whose requests hold each call's id, also
// one that the runtime made. Of a model without the method such ids are left
// out.
type idKeeper interface{ KeepsCallIDs() bool }

func keepsIDs(llm model.LLM) bool {
	k, ok := llm.(idKeeper)
	return ok && k.KeepsCallIDs()
}

// bare is a content as the view's model knows it.
func (v *view) bare(c *genai.Content) *genai.Content {
	given := c
	if v.code != (unique.Handle[codeWords]{}) {
		c = v.code.Value().told(c)
	}
	if !v.keepIDs {
		c = withoutOwnIDs(c)
	}
	if c != given {
		v.bytes += contentBytes(c)
	}
	return c
}
