package operator_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"agenthost/wing/operator"
)

// newLog returns a logger whose log has errors only, and the ring that it fills.
func newLog() (*slog.Logger, *operator.LogRing) {
	ring := &operator.LogRing{}
	return slog.New(ring.WrapHandler(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError}))), ring
}

// Warnings and errors are kept with their attributes and groups, newest first; other entries are not.
func TestKeptEntries(t *testing.T) {
	log, ring := newLog()
	log.Info("quiet")
	log.With("app", "desk").WithGroup("call").Warn("slow", "tool", "refund", slog.Group("in", "seconds", 8))
	log.Error("broken", "error", fmt.Errorf("no route"))
	entries, total := ring.Entries()
	if total != 2 || len(entries) != 2 || entries[0].Message != "broken" || !slices.Equal(entries[0].Attrs, []string{"error=no route"}) {
		t.Fatalf("%d entries: %+v", total, entries)
	}
	if want := []string{"app=desk", "call.tool=refund", "call.in.seconds=8"}; !slices.Equal(entries[1].Attrs, want) || entries[1].Level != "WARN" {
		t.Errorf("the warning is %+v, want %q", entries[1], want)
	}
}

// The ring keeps no credential that it recognizes, in messages and in attributes.
func TestCredentialsRedacted(t *testing.T) {
	log, ring := newLog()
	log.Error("POST https://ana:hunter2@db.example failed with Bearer abc.def-ghi and api_key=hunter2",
		"password", "hunter2", "access_token", "hunter2", "url", "postgres://u:hunter2@host/db?password=hunter2",
		"error", fmt.Errorf(`401 {"token": "hunter2"}: sk-hunter2hunter2hunter2, eyJhbGciOi.hunter2.hunter2`), "tokens", 17)
	entries, _ := ring.Entries()
	all := fmt.Sprint(entries)
	if strings.Contains(all, "hunter2") || strings.Contains(all, "abc.def") {
		t.Errorf("a credential is kept: %s", all)
	}
	if !strings.Contains(all, "tokens=17") || !strings.Contains(all, "db.example failed") || !strings.Contains(all, "password=***") {
		t.Errorf("more than credentials is redacted: %s", all)
	}
}

// The ring is bounded in entries, attributes and bytes, and its texts are valid.
func TestEntriesBounded(t *testing.T) {
	log, ring := newLog()
	for i := range 150 {
		var attrs []any
		for k := range 100 {
			attrs = append(attrs, fmt.Sprint("k", k), strings.Repeat("ä\xff", 2000))
		}
		log.Error(strings.Repeat("x", 100_000)+fmt.Sprint(i), attrs...)
	}
	log.Error("last")
	entries, total := ring.Entries()
	size := 0
	for _, e := range entries {
		size += len(e.Message)
		for _, text := range e.Attrs {
			size += len(text)
			if strings.ToValidUTF8(text, "") != text {
				t.Fatalf("%q is not valid", text)
			}
		}
	}
	if total != 151 || len(entries) != 100 || entries[0].Message != "last" || size > 100*9000 {
		t.Errorf("%d entries of %d with %d bytes, the first is %.20q", len(entries), total, size, entries[0].Message)
	}
}

// Each entry goes to the log as before.
func TestLogUnchanged(t *testing.T) {
	var plain, wrapped strings.Builder
	opts := &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}
	ring := &operator.LogRing{}
	for _, h := range []slog.Handler{slog.NewTextHandler(&plain, opts), ring.WrapHandler(slog.NewTextHandler(&wrapped, opts))} {
		log := slog.New(h).With("a", 1).WithGroup("g")
		log.Info("no")
		log.LogAttrs(context.Background(), slog.LevelWarn, "yes", slog.String("password", "kept in the log of the program"))
	}
	if plain.String() != wrapped.String() || plain.Len() == 0 {
		t.Errorf("the log is %q, want %q", wrapped.String(), plain.String())
	}
}
