package store

import (
	"testing"

	"google.golang.org/genai"

	"agenthost/pkg/session"
)

// What a session began with stays known, whatever happens to its state, and
// is given back as it was.
func TestInitial(t *testing.T) {
	for _, be := range backends() {
		t.Run(be.name, func(t *testing.T) {
			s := openStore(t, be.url(t), nil)
			sess := create(t, s, alice, map[string]any{
				"n": 1, "f": 1.0, "m": map[string]any{"l": []any{int64(2)}}, "none": nil,
				"user:u": 1, "app:a": 1, "temp:t": 1,
			})
			ev := said("user", "hi")
			ev.Actions.StateDelta = map[string]any{"n": 2, "f": nil, "later": true}
			appendTo(t, s, sess, ev)
			got, err := s.Sessions.Initial(t.Context(), alice)
			if err != nil {
				t.Fatal(err)
			}
			diff(t, "initial", map[string]any{"n": int64(1), "f": 1.0, "m": map[string]any{"l": []any{int64(2)}}}, got)
			_, err = s.Sessions.Initial(t.Context(), session.Key{App: "a", User: "u", ID: "none"})
			wantErr(t, "no such session", err, session.ErrNotFound, "session not found: none")
		})
	}
}

// An absence is a version that loads as missing; what was there before it is
// there still.
func TestAbsence(t *testing.T) {
	eachShelf(t, nil, func(t *testing.T, a *Artifacts, _ string) {
		for _, p := range []*genai.Part{textPart("x"), Absence()} {
			if _, err := a.Save(t.Context(), alice, "f", p); err != nil {
				t.Fatal(err)
			}
		}
		_, err := a.Load(t.Context(), alice, "f", -1)
		wantErr(t, "the latest", err, session.ErrNotFound, "artifact not found: f")
		_, err = a.Load(t.Context(), alice, "f", 1)
		wantErr(t, "by its number", err, session.ErrNotFound, "artifact not found: f version 1")
		if p, err := a.Load(t.Context(), alice, "f", 0); err != nil || p.Text != "x" {
			t.Errorf("Load(0) = %v, %v, want x", p, err)
		}
	})
}
