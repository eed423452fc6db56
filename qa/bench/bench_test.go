package main

import (
	"context"
	"testing"
)

// BenchmarkTurn measures agenthost turns in new sessions, for profiles:
//
//	go test -run - -bench Turn/fresh -memprofile mem.out -memprofilerate 1
func BenchmarkTurn(b *testing.B) {
	for _, tt := range []struct {
		name string
		t    conversation
	}{
		{"fresh", conversation{}},
		{"tool", conversation{scene: Scene{Tool: true}}},
		{"sequence", conversation{scene: Scene{Sequence: 3}}},
		{"parallel", conversation{scene: Scene{Parallel: 8}}},
		{"chunks", conversation{scene: Scene{Chunks: 200}}},
		{"durable", conversation{durable: true}},
	} {
		b.Run(tt.name, func(b *testing.B) { benchTurn(b, tt.t) })
	}
}

func benchTurn(b *testing.B, t conversation) {
	ctx := context.Background()
	setup := Setup{Scene: t.scene}
	if t.durable {
		setup.Storage = Storage{Dir: b.TempDir(), Synchronous: "FULL"}
	}
	c, err := agenthost{}.Open(ctx, setup)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	for i := range b.N {
		if err := c.Create(ctx, sessionID(i), 0); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if err := t.runTurn(ctx, c, sessionID(i), 0); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
}
