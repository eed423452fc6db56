package tool

import (
	"testing"
	"time"
)

func TestFormatDuration(t *testing.T) {
	tests := map[time.Duration]string{
		5 * time.Second: "5s", time.Minute: "1m", time.Hour: "1h", 90 * time.Minute: "1h30m",
		10 * time.Second: "10s", 70 * time.Second: "1m10s", 50 * time.Millisecond: "50ms",
	}
	for in, want := range tests {
		if got := FormatDuration(in); got != want {
			t.Errorf("brief(%v) = %q, want %q", int64(in), got, want)
		}
	}
}
