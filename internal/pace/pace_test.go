package pace

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// The percentage matches two seconds of allocation. It is at least 20, and at most 100
// or what grows the heap to 128 MB.
func TestComputePercent(t *testing.T) {
	const mega = 1 << 20
	tests := []struct {
		name       string
		used, made uint64
		took       time.Duration
		want       int
	}{
		{"high allocation rate", 100 * mega, 100 * mega, time.Second, 100},
		{"half of the heap in two seconds", 100 * mega, 100 * mega, 4 * time.Second, 50},
		{"low allocation rate", 100 * mega, mega, 4 * time.Second, 20},
		{"no measurement yet", 0, mega, time.Second, 100},
		{"no elapsed time", mega, mega, 0, 100},
		{"high rate, small heap", 16 * mega, 100 * mega, time.Second, 700},
		{"high rate, tiny heap", mega, 100 * mega, time.Second, 3100},
		{"high rate, medium heap", 48 * mega, 100 * mega, time.Second, 167},
		{"medium rate, small heap", 16 * mega, 8 * mega, time.Second, 100},
	}
	for _, tt := range tests {
		if got := computePercent(tt.used, tt.made, tt.took); got != tt.want {
			t.Errorf("%s: computePercent() = %d, want %d", tt.name, got, tt.want)
		}
	}
}

// After a long time without allocations the percentage is the minimum. High allocation
// raises it again.
func TestAdjustPercent(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(maxPercent))
	runtime.GC()
	p := &pacer{percent: maxPercent}
	p.readMetrics()
	p.adjustPercent(p.lastCollection.Add(time.Hour))
	if got := debug.SetGCPercent(maxPercent); got != minPercent {
		t.Errorf("after an idle hour the percentage is %d, want %d", got, minPercent)
	}
	p.allocated = 0
	p.adjustPercent(p.lastCollection.Add(time.Nanosecond))
	if p.percent < maxPercent {
		t.Errorf("after many allocations the percentage is %d, want %d or more", p.percent, maxPercent)
	}
}

// Keep does nothing if the environment configures the collector.
func TestKeepRespectsEnvironment(t *testing.T) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Setenv(name, "100")
		defer debug.SetGCPercent(debug.SetGCPercent(70))
		Keep()
		runtime.GC()
		if got := debug.SetGCPercent(70); got != 70 {
			t.Errorf("with %s the percentage is %d, want 70", name, got)
		}
	}
}
