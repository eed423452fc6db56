package evalcommand

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"agenthost/internal/terminal"
)

// A progress bar shows the runs that ended, how many passed, and the time left by the mean
// over the runs in this process. It is drawn at most ten times a second, and at the end.
func TestProgressBar(t *testing.T) {
	now := time.Unix(1700000000, 0)
	var out bytes.Buffer
	p := &progressBar{bar: terminal.NewProgress(terminal.NewOutput(&out, terminal.Settings{Terminal: true, Width: 100}), 8), now: func() time.Time { return now }, began: now, total: 8, resumed: 2, done: 2}
	for _, step := range []struct {
		after  time.Duration
		passed bool
		want   string
	}{
		{2 * time.Second, true, "\r[#########---------------] 3/8, 1 passed, 0 not passed, 2 resumed, 10s left"},
		{50 * time.Millisecond, false, ""},
		{2*time.Second - 50*time.Millisecond, false, "\r[###############---------] 5/8, 1 passed, 2 not passed, 2 resumed, 4s left "},
		{time.Millisecond, true, ""},
		{time.Millisecond, true, ""},
		{time.Millisecond, true, "\r[########################] 8/8, 4 passed, 2 not passed, 2 resumed         "},
	} {
		out.Reset()
		now = now.Add(step.after)
		if p.addResult(step.passed); out.String() != step.want {
			t.Errorf("after %s: %q, want %q", step.after, &out, step.want)
		}
	}
	out.Reset()
	if p.clearLine(); out.String() != "\r"+strings.Repeat(" ", 65)+"\r" {
		t.Errorf("clearLine = %q, want spaces over the line", &out)
	}
}

// Without a terminal there is no bar.
func TestProgressBarPipe(t *testing.T) {
	_, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, out := range []*progressBar{newProgressBar(&bytes.Buffer{}, 1), newProgressBar(w, 1)} {
		if out != nil {
			t.Error("a pipe has a progress bar")
		}
		out.clearLine()
	}
}
