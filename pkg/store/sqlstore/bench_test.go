package sqlstore

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// BenchmarkTurn is what the store pays for one turn: take the session, read it,
// append the user's event and the agent's.
func BenchmarkTurn(b *testing.B) {
	for _, be := range backends() {
		for _, length := range []int{0, 1000, 5000} {
			name := fmt.Sprint(length)
			if length == 0 {
				name = "fresh"
			}
			b.Run(be.name+"/"+name, func(b *testing.B) { benchmarkTurn(b, be, length) })
		}
	}
}

func benchmarkTurn(b *testing.B, be testBackend, length int) {
	s := openStore(b, be.url(b), nil).Sessions
	ctx := b.Context()
	key := session.Key{App: "app", User: "user", ID: "long"}
	sess, err := s.Create(ctx, key, map[string]any{"a": 1, "user:b": "two", "app:c": true})
	if err != nil {
		b.Fatal(err)
	}
	for range length {
		if err := s.Append(ctx, sess, textEvent("user", "hello there, how are you today?")); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	before := cpuTime(b)
	for b.Loop() {
		if err := runTurn(ctx, s, key); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
}

func runTurn(ctx context.Context, s *store.Sessions, key session.Key) error {
	_, release, err := s.Acquire(ctx, key, time.Minute)
	if err != nil {
		return err
	}
	defer release()
	sess, err := s.Get(ctx, key, nil)
	if err != nil {
		return err
	}
	var o session.Outcome
	if err := o.Decode(sess.Outcome); err != nil {
		return err
	}
	o.BeginTurn()
	o.AddAgent(session.AgentOutcome{Agent: "agent", Calls: 1, Priced: 1, Input: 1200, Cached: 400, Output: 80, NanoUSD: 120_500})
	sess.Outcome = o.Append(nil)
	for _, author := range []string{"user", "agent"} {
		if err == nil {
			err = s.Append(ctx, sess, textEvent(author, "hello there, how are you today?"))
		}
	}
	return err
}

// BenchmarkTurnsApart is one turn when each is in another session, so that none finds the previous
// one's lease.
func BenchmarkTurnsApart(b *testing.B) {
	for _, be := range backends() {
		b.Run(be.name, func(b *testing.B) {
			s := openStore(b, be.url(b), nil).Sessions
			key := func(i int) session.Key { return session.Key{App: "app", User: "user", ID: fmt.Sprint(i % 1000)} }
			for i := range 1000 {
				if _, err := s.Create(b.Context(), key(i), nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			before := cpuTime(b)
			for i := 0; b.Loop(); i++ {
				if err := runTurn(b.Context(), s, key(i)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// BenchmarkAppendAtOnce is one append when many sessions are written to at the
// same time.
func BenchmarkAppendAtOnce(b *testing.B) {
	for _, be := range backends() {
		b.Run(be.name, func(b *testing.B) {
			s := openStore(b, be.url(b), nil).Sessions
			var n atomic.Int64
			b.SetParallelism(32)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				key := session.Key{App: "app", User: "user", ID: fmt.Sprint(n.Add(1))}
				sess, err := s.Create(b.Context(), key, nil)
				for err == nil && pb.Next() {
					err = s.Append(b.Context(), sess, textEvent("user", "hello there, how are you today?"))
				}
				if err != nil {
					b.Error(err)
				}
			})
		})
	}
}

// BenchmarkColdGet is the first read after another process wrote the session.
func BenchmarkColdGet(b *testing.B) {
	for _, be := range backends() {
		b.Run(be.name+"/5000", func(b *testing.B) {
			s := openStore(b, be.url(b), nil)
			key := session.Key{App: "app", User: "user", ID: "long"}
			sess, err := s.Sessions.Create(b.Context(), key, nil)
			for i := 0; i < 5000 && err == nil; i++ {
				err = s.Sessions.Append(b.Context(), sess, textEvent("user", "hello there, how are you today?"))
			}
			for err == nil && b.Loop() {
				s.dropCache()
				_, err = s.Sessions.Get(b.Context(), key, nil)
			}
			if err != nil {
				b.Fatal(err)
			}
		})
	}
}

// cpuTime is what the process has used so far: waiting for the disk is not in
// it.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkMemory is what remembering a turn costs, and a search in one user's 10 000 memories.
func BenchmarkMemory(b *testing.B) {
	for _, be := range backends() {
		s := openStore(b, be.url(b), nil)
		text := func(i int) string {
			return fmt.Sprintf("Today I wrote to you about subject %d and thing %d, which is the topic of the day.", i%997, i)
		}
		var events []*session.Event
		for i := range 10_000 {
			events = append(events, eventAtMinute(fmt.Sprint(i), "user", text(i), i))
		}
		addEvents(b, s, alice, events...)
		b.Run(be.name+"/add", func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				key := session.Key{App: "app", User: "other", ID: "s"}
				addEvents(b, s, key, eventAtMinute(fmt.Sprint("u", i), "user", text(i), i), eventAtMinute(fmt.Sprint("a", i), "agent", text(i+1), i))
			}
		})
		for _, query := range []string{"subject 77", "what did I write of the topic and thing 5000"} {
			b.Run(be.name+"/search/"+fmt.Sprint(len(strings.Fields(query))), func(b *testing.B) {
				for b.Loop() {
					searchText(b, s, alice, query)
				}
			})
		}
	}
}
