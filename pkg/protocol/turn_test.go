package protocol

import (
	"strings"
	"testing"

	"agenthost/pkg/session"
)

// A title is the beginning of the text on one line, and is stored next to other metadata.
func TestTitles(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		" one\n\ttwo ":           "one two",
		strings.Repeat("é", 90):  strings.Repeat("é", 79) + "…",
		"\x1b[31mred\u202ewords": "red\\u202ewords",
	} {
		if got := NewTitle(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	sess := session.New(session.Session{}, map[string]any{session.MetadataKey: map[string]any{"starred": true}})
	if got := ReadTitle(sess); got != "" {
		t.Errorf("the title is %q", got)
	}
	sess.State.Apply(WithTitle(sess, "one"))
	stored, _ := sess.State.Get(session.MetadataKey)
	if got := ReadTitle(sess); got != "one" || stored.(map[string]any)["starred"] != true {
		t.Errorf("the title is %q in %v", got, stored)
	}
}
