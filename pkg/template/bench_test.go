package template

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// BenchmarkRender2KB renders 2 KB with ten placeholders from a state with 100 keys. Target: under 1
// µs, at most 2 allocations.
func BenchmarkRender2KB(b *testing.B) {
	state := map[string]any{"count": int64(42)}
	for i := range 99 {
		state[fmt.Sprintf("key_%d", i)] = fmt.Sprintf("value %d", i)
	}
	var scope Scope = mapScope{state: state}
	var src strings.Builder
	for i := range 9 {
		src.WriteString(strings.Repeat("Answer politely. ", 12))
		fmt.Fprintf(&src, "{key_%d}", i*7)
	}
	src.WriteString("{count}")
	text := Parse(src.String())
	b.SetBytes(int64(src.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := text.Render(b.Context(), scope); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRenderStatic must not allocate.
func BenchmarkRenderStatic(b *testing.B) {
	text := Parse(strings.Repeat("Answer politely. ", 120))
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := text.Render(ctx, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEval(b *testing.B) {
	items := make([]any, 300)
	for i := range items {
		items[i] = int64(i)
	}
	vars := map[string]any{
		"state": map[string]any{"intent": "refund", "tier": "gold", "score": int64(7), "items": items},
		"user":  "I want a refund",
	}
	env := Env{"state": map[string]any{}, "user": ""}
	for _, bm := range []struct{ name, src string }{
		{"route", `state.intent == "refund" and state.tier == "gold"`},
		{"default", `(state.score ?? 0) >= 8`},
		{"contains", `user contains "refund"`},
		{"in", `state.intent in ["question", "refund", "other"]`},
		{"matches", `user matches "(?i)refund"`},
		{"filter300", `len(filter(state.items, # > 150)) > 3`},
	} {
		b.Run(bm.name, func(b *testing.B) {
			e, err := CompileBool(bm.src, env)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Bool(b.Context(), vars); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	env := Env{"state": map[string]any{}}
	for b.Loop() {
		if _, err := CompileBool(`state.intent == "refund" and state.tier == "gold"`, env); err != nil {
			b.Fatal(err)
		}
	}
}
