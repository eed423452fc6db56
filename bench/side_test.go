package main

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"google.golang.org/genai"
)

// testSide is what every side has to pass to be compared.
func testSide(t *testing.T, s Side) {
	t.Run("memory", func(t *testing.T) {
		visitSide(t, s, Setup{}, func(c Chat) { converse(t, c, 4) })
	})
	for _, synchronous := range []string{"FULL", "NORMAL"} {
		t.Run("durable "+synchronous, func(t *testing.T) {
			st := Setup{Storage: Storage{Dir: t.TempDir(), Synchronous: synchronous}}
			visitSide(t, s, st, func(c Chat) { converse(t, c, 4) })
			visitSide(t, s, st, func(c Chat) {
				wantCount(t, c, 6)
				wantTurn(t, c, 6)
				wantCount(t, c, 8)
			})
		})
	}
	t.Run("rounds", func(t *testing.T) { testRounds(t, s) })
	t.Run("leaves nothing behind", func(t *testing.T) { testLeavesNothing(t, s) })
}

// testRounds makes one small round of every sort of work.
func testRounds(t *testing.T, s Side) {
	tests := map[string]func(context.Context, *lab, Side) (Cost, error){
		"memory, fresh":   talk{sessions: 2, turns: 1, limit: long}.round,
		"memory, 4":       talk{sessions: 2, events: 4, turns: 2, limit: long}.round,
		"durable, fresh":  talk{durable: true, sessions: 2, turns: 1, limit: long}.round,
		"durable, 4":      talk{durable: true, sessions: 2, events: 4, turns: 2, limit: long}.round,
		"memory, cold":    talk{cold: true, sessions: 2, events: 4, turns: 1, limit: long}.round,
		"tool":            talk{scene: Scene{Tool: true}, sessions: 2, turns: 2, limit: long}.round,
		"sequence":        talk{scene: Scene{Sequence: 3}, sessions: 2, turns: 2, limit: long}.round,
		"parallel":        talk{scene: Scene{Parallel: 4}, sessions: 2, turns: 2, limit: long}.round,
		"pieces":          talk{scene: Scene{Pieces: 5}, sessions: 2, turns: 2, per: 5, limit: long}.round,
		"fill a template": renderRound,
	}
	for name, round := range tests {
		t.Run(name, func(t *testing.T) {
			l := &lab{dir: t.TempDir(), synchronous: "FULL"}
			if _, err := round(t.Context(), l, s); err != nil {
				t.Errorf("round() = %v", err)
			}
		})
	}
}

// testLeavesNothing fails when what a round filled stays in memory, where the
// other side's collections would have to walk it.
func testLeavesNothing(t *testing.T, s Side) {
	var heap []uint64
	for range 4 {
		work := talk{sessions: 4, events: 500, turns: 2, limit: long}
		if _, err := work.round(t.Context(), &lab{}, s); err != nil {
			t.Fatalf("round() = %v", err)
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		heap = append(heap, m.HeapAlloc)
	}
	if heap[3] > heap[0]+1<<20 {
		t.Errorf("heap after each round = %d bytes, want no growth", heap)
	}
}

func visitSide(t *testing.T, s Side, st Setup, use func(Chat)) {
	t.Helper()
	if err := visit(t.Context(), s, st, func(c Chat) error { use(c); return nil }); err != nil {
		t.Fatalf("visit() = %v", err)
	}
}

// converse creates a session of n events and makes a turn in it.
func converse(t *testing.T, c Chat, n int) {
	t.Helper()
	if err := c.Create(t.Context(), "talk", n); err != nil {
		t.Fatalf("Create(%d) = %v", n, err)
	}
	wantCount(t, c, n)
	wantTurn(t, c, n)
	wantCount(t, c, n+2)
}

func wantTurn(t *testing.T, c Chat, earlier int) {
	t.Helper()
	if err := (talk{}).turn(t.Context(), c, "talk", earlier); err != nil {
		t.Errorf("turn() = %v", err)
	}
}

func wantCount(t *testing.T, c Chat, want int) {
	t.Helper()
	got, err := c.Count(t.Context(), "talk")
	if err != nil || got != want {
		t.Errorf("Count() = %d, %v, want %d", got, err, want)
	}
}

// plain is a side that keeps nothing but numbers, and may be wrong in one way.
type plain struct {
	answer    string // instead of Reply
	forgotten int    // contents that the model is not shown
	lost      int    // events that are not stored
	swallowed int    // pieces that are not given out
	rendered  string // instead of the filled template
}

func (plain) Name() string { return "plain" }

func (p plain) Open(_ context.Context, s Setup) (Chat, error) {
	return &plainChat{plain: p, scene: s.Scene, events: map[string]int{}}, nil
}

func (p plain) Template(_ context.Context, text string, state map[string]any) (func(context.Context) (string, error), error) {
	want := filled(text, state)
	if p.rendered != "" {
		want = p.rendered
	}
	return func(context.Context) (string, error) { return want, nil }, nil
}

type plainChat struct {
	plain
	scene  Scene
	events map[string]int
}

func (c *plainChat) Create(_ context.Context, id string, n int) error {
	c.events[id] = n
	return nil
}

func (c *plainChat) Turn(_ context.Context, id string) (Answer, error) {
	n, ok := c.events[id]
	if !ok {
		return Answer{}, fmt.Errorf("no session %s", id)
	}
	left := c.scene.trace()
	c.events[id] = n + left.stored - c.lost
	text := Reply
	if c.answer != "" {
		text = c.answer
	}
	return Answer{Content: genai.NewContentFromText(text, genai.RoleModel), Seen: n + left.seen - c.forgotten, Pieces: left.pieces - c.swallowed}, nil
}

func (c *plainChat) Count(_ context.Context, id string) (int, error) { return c.events[id], nil }

func (c *plainChat) Close() error { return nil }
