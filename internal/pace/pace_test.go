package pace

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// Garbage may be what comes together in two seconds, but at least a fifth of what
// is in use, and at most as much as that, or what makes 128 MB with it.
func TestComputePercent(t *testing.T) {
	const mega = 1 << 20
	tests := []struct {
		name       string
		used, made uint64
		took       time.Duration
		want       int
	}{
		{"much is made", 100 * mega, 100 * mega, time.Second, 100},
		{"half of it in two seconds", 100 * mega, 100 * mega, 4 * time.Second, 50},
		{"hardly anything is made", 100 * mega, mega, 4 * time.Second, 20},
		{"nothing is known yet", 0, mega, time.Second, 100},
		{"no time has passed", mega, mega, 0, 100},
		{"much is made of little", 16 * mega, 100 * mega, time.Second, 700},
		{"much is made of next to nothing", mega, 100 * mega, time.Second, 3100},
		{"much is made of some", 48 * mega, 100 * mega, time.Second, 167},
		{"something is made of little", 16 * mega, 8 * mega, time.Second, 100},
	}
	for _, tt := range tests {
		if got := computePercent(tt.used, tt.made, tt.took); got != tt.want {
			t.Errorf("%s: share() = %d, want %d", tt.name, got, tt.want)
		}
	}
}

// The collector of a process that made next to nothing for a long time comes
// sooner, and one that makes much gets its garbage back.
func TestAdjustPercent(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(maxPercent))
	runtime.GC()
	p := &pacer{percent: maxPercent}
	p.readMetrics()
	p.adjustPercent(p.lastCollection.Add(time.Hour))
	if got := debug.SetGCPercent(maxPercent); got != minPercent {
		t.Errorf("after an hour of nothing the collector is at %d, want %d", got, minPercent)
	}
	p.allocated = 0
	p.adjustPercent(p.lastCollection.Add(time.Nanosecond))
	if p.percent < maxPercent {
		t.Errorf("after much in no time the collector is at %d, want %d or more", p.percent, maxPercent)
	}
}

// Whoever sets the collector has set it.
func TestKeepRespectsEnvironment(t *testing.T) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Setenv(name, "100")
		defer debug.SetGCPercent(debug.SetGCPercent(70))
		Keep()
		runtime.GC()
		if got := debug.SetGCPercent(70); got != 70 {
			t.Errorf("with %s the collector is at %d, want 70", name, got)
		}
	}
}
