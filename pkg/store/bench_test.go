package store

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// BenchmarkTurn is what the store pays for one turn: read the session, append
// the user's event and the agent's.
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
		if err := s.Append(ctx, sess, said("user", "hello there, how are you today?")); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	before := cpuTime(b)
	for b.Loop() {
		sess, err := s.Get(ctx, key, nil)
		if err != nil {
			b.Fatal(err)
		}
		for _, author := range []string{"user", "agent"} {
			if err := s.Append(ctx, sess, said(author, "hello there, how are you today?")); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
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
					err = s.Append(b.Context(), sess, said("user", "hello there, how are you today?"))
				}
				if err != nil {
					b.Error(err)
				}
			})
		})
	}
}

// BenchmarkColdGet is the first read of a session that was written by another
// process.
func BenchmarkColdGet(b *testing.B) {
	for _, be := range backends() {
		b.Run(be.name+"/5000", func(b *testing.B) {
			s := openStore(b, be.url(b), nil).Sessions
			key := session.Key{App: "app", User: "user", ID: "long"}
			sess, err := s.Create(b.Context(), key, nil)
			for i := 0; i < 5000 && err == nil; i++ {
				err = s.Append(b.Context(), sess, said("user", "hello there, how are you today?"))
			}
			for err == nil && b.Loop() {
				s.cache.drop(key)
				_, err = s.Get(b.Context(), key, nil)
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

func said(author, text string) *session.Event {
	content := model.UserText(text)
	if author != session.UserAuthor {
		content = model.ModelText(text)
	}
	return &session.Event{InvocationID: "e-1", Author: author, Response: model.Response{Content: content}}
}
