package doctor

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A clock that differs by more than a second is a warning with the direction. A file has no clock.
func TestCheckClock(t *testing.T) {
	for _, tt := range []struct {
		ahead time.Duration
		text  string
	}{
		{90 * time.Second, "this machine's clock is 1m30s slow, compared with the database server's"},
		{-1500 * time.Millisecond, "this machine's clock is 1.5s fast, compared with the database server's"},
		{time.Second, "the clocks of this machine and of the database server differ by less than a second"},
	} {
		r := &Report{}
		r.checkClock(&tt.ahead)
		if len(r.Findings) != 1 || r.Findings[0].Text != tt.text || (r.Worst() == OK) != (r.Findings[0].Hint == "") {
			t.Errorf("%s: %+v", tt.ahead, r.Findings)
		}
	}
	r := &Report{}
	if r.checkClock(nil); len(r.Findings) != 0 {
		t.Errorf("a file: %+v", r.Findings)
	}
}

// The memory limit is a finding if there is one, and a warning if it is small.
func TestCheckMemory(t *testing.T) {
	for limit, want := range map[int64][]Finding{
		0:         nil,
		1 << 62:   nil,
		512 << 20: {{"memory", OK, "the limit is 512 MiB", ""}},
		100 << 20: {{"memory", Warning, "the limit is 100 MiB", "an idle host has 70 MiB, and caches sessions: give it at least 128 MiB"}},
	} {
		r := &Report{}
		r.CheckMachine(limit)
		var got []Finding
		for _, f := range r.Findings {
			if f.Check == "memory" {
				got = append(got, f)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%d: %s", limit, d)
		}
	}
}
