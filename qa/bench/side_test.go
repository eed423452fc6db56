package main

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"google.golang.org/genai"
)

// testSide is the test that every side must pass.
func testSide(t *testing.T, s Side) {
	t.Run("memory", func(t *testing.T) {
		withSideChat(t, s, Setup{}, func(c Chat) { createAndTurn(t, c, 4) })
	})
	for _, synchronous := range []string{"FULL", "NORMAL"} {
		t.Run("durable "+synchronous, func(t *testing.T) {
			st := Setup{Storage: Storage{Dir: t.TempDir(), Synchronous: synchronous}}
			withSideChat(t, s, st, func(c Chat) { createAndTurn(t, c, 4) })
			withSideChat(t, s, st, func(c Chat) {
				wantCount(t, c, 6)
				wantTurn(t, c, 6)
				wantCount(t, c, 8)
			})
		})
	}
	t.Run("rounds", func(t *testing.T) { testRounds(t, s) })
	t.Run("no memory leak", func(t *testing.T) { testNoMemoryLeak(t, s) })
}

// testRounds runs one small round of every kind of work.
func testRounds(t *testing.T, s Side) {
	tests := map[string]func(context.Context, *lab, Side) (Cost, error){
		"memory, fresh":   conversation{sessions: 2, turns: 1, limit: longLimit}.runRound,
		"memory, 4":       conversation{sessions: 2, events: 4, turns: 2, limit: longLimit}.runRound,
		"durable, fresh":  conversation{durable: true, sessions: 2, turns: 1, limit: longLimit}.runRound,
		"durable, 4":      conversation{durable: true, sessions: 2, events: 4, turns: 2, limit: longLimit}.runRound,
		"memory, cold":    conversation{cold: true, sessions: 2, events: 4, turns: 1, limit: longLimit}.runRound,
		"tool":            conversation{scene: Scene{Tool: true}, sessions: 2, turns: 2, limit: longLimit}.runRound,
		"sequence":        conversation{scene: Scene{Sequence: 3}, sessions: 2, turns: 2, limit: longLimit}.runRound,
		"parallel":        conversation{scene: Scene{Parallel: 4}, sessions: 2, turns: 2, limit: longLimit}.runRound,
		"chunks":          conversation{scene: Scene{Chunks: 5}, sessions: 2, turns: 2, opsPerTurn: 5, limit: longLimit}.runRound,
		"fill a template": renderRound,
	}
	for name, round := range tests {
		t.Run(name, func(t *testing.T) {
			l := &lab{dir: t.TempDir(), synchronous: "FULL"}
			if _, err := round(t.Context(), l, s); err != nil {
				t.Errorf("runRound() = %v", err)
			}
		})
	}
}

// testNoMemoryLeak fails if a round's sessions stay in memory, where they would slow down the other
// side's garbage collections.
func testNoMemoryLeak(t *testing.T, s Side) {
	var heap []uint64
	for range 4 {
		work := conversation{sessions: 4, events: 500, turns: 2, limit: longLimit}
		if _, err := work.runRound(t.Context(), &lab{}, s); err != nil {
			t.Fatalf("runRound() = %v", err)
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

func withSideChat(t *testing.T, s Side, st Setup, use func(Chat)) {
	t.Helper()
	if err := withChat(t.Context(), s, st, func(c Chat) error { use(c); return nil }); err != nil {
		t.Fatalf("withChat() = %v", err)
	}
}

// createAndTurn creates a session with n events and runs a turn in it.
func createAndTurn(t *testing.T, c Chat, n int) {
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
	if err := (conversation{}).runTurn(t.Context(), c, "talk", earlier); err != nil {
		t.Errorf("runTurn() = %v", err)
	}
}

func wantCount(t *testing.T, c Chat, want int) {
	t.Helper()
	got, err := c.Count(t.Context(), "talk")
	if err != nil || got != want {
		t.Errorf("Count() = %d, %v, want %d", got, err, want)
	}
}

// fakeSide is a side that only counts, and may be wrong in one way.
type fakeSide struct {
	answer         string // replaces Reply
	hiddenContents int    // contents missing in the model call
	lostEvents     int    // events that are not stored
	lostChunks     int    // missing partial events
	rendered       string // replaces the filled template
}

func (fakeSide) Name() string { return "plain" }

func (p fakeSide) Open(_ context.Context, s Setup) (Chat, error) {
	return &fakeChat{fakeSide: p, scene: s.Scene, events: map[string]int{}}, nil
}

func (p fakeSide) Template(_ context.Context, text string, state map[string]any) (func(context.Context) (string, error), error) {
	want := fillPlaceholders(text, state)
	if p.rendered != "" {
		want = p.rendered
	}
	return func(context.Context) (string, error) { return want, nil }, nil
}

type fakeChat struct {
	fakeSide
	scene  Scene
	events map[string]int
}

func (c *fakeChat) Create(_ context.Context, id string, n int) error {
	c.events[id] = n
	return nil
}

func (c *fakeChat) Turn(_ context.Context, id string) (Answer, error) {
	n, ok := c.events[id]
	if !ok {
		return Answer{}, fmt.Errorf("no session %s", id)
	}
	left := c.scene.wantTrace()
	c.events[id] = n + left.stored - c.lostEvents
	text := Reply
	if c.answer != "" {
		text = c.answer
	}
	return Answer{Content: genai.NewContentFromText(text, genai.RoleModel), Seen: n + left.seen - c.hiddenContents, Chunks: left.chunks - c.lostChunks}, nil
}

func (c *fakeChat) Count(_ context.Context, id string) (int, error) { return c.events[id], nil }

func (c *fakeChat) Close() error { return nil }
