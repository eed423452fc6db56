package main

import (
	"context"
	"testing"
	"time"
)

func bench(b *testing.B, s Scene) {
	t := talk{scene: s, sessions: b.N, turns: 1, limit: time.Hour}
	b.ReportAllocs()
	setup := Setup{Scene: s}
	err := visit(context.Background(), agenthost{}, setup, func(c Chat) error {
		if err := t.fill(context.Background(), c); err != nil {
			return err
		}
		b.ResetTimer()
		for i := range b.N {
			if err := t.turn(context.Background(), c, sessionID(i), 0); err != nil {
				return err
			}
		}
		b.StopTimer()
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}
func BenchmarkOne(b *testing.B)  { bench(b, Scene{}) }
func BenchmarkTool(b *testing.B) { bench(b, Scene{Tool: true}) }
func BenchmarkSeq(b *testing.B)  { bench(b, Scene{Sequence: 3}) }
func BenchmarkPar(b *testing.B)  { bench(b, Scene{Parallel: 8}) }
func BenchmarkPie(b *testing.B)  { bench(b, Scene{Pieces: 200}) }
