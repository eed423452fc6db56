//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// A slow measurement does not postpone the next one for long: a program with a million locks could
// otherwise keep its memory until it ends.
func TestPauseAfterMeasurement(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0: 50 * time.Millisecond, 5 * time.Millisecond: 50 * time.Millisecond, 50 * time.Millisecond: 450 * time.Millisecond, 3 * time.Second: time.Second,
	} {
		if got := pauseAfter(took); got != want {
			t.Errorf("pause after %s: %s, want %s", took, got, want)
		}
	}
}

// TestHeldMemory runs programs that make the kernel hold memory for them outside their pages: four
// times their limit, in each way. (They hold fewer locks and pipes, since those are slow, or
// limited by the kernel.) Every one must fail or be killed. Each row's control is the same program
// without limits: it succeeds.
func TestHeldMemory(t *testing.T) {
	if err := Available(); err != nil {
		t.Skip(err)
	}
	e := newEnv(t)
	e.limits.Memory, e.limits.Processes = 128<<20, 400
	online := *e.limits
	online.Network = true
	const attack, stay = "512", "20"
	escaped, count := 0, 0
	for _, row := range []struct {
		name   string
		limits *Limits
		args   []string
		// rootOnly marks controls that the kernel limits for other users.
		rootOnly bool
	}{
		{"shared memory without pages in the process", e.limits, []string{"held", "shared", attack, stay}, false},
		{"shared memory of /dev/zero", e.limits, []string{"held", "zero-device", attack, stay}, false},
		{"a file in memory", e.limits, []string{"held", "memory-file", attack, stay}, false},
		{"mappings of the stack", e.limits, []string{"held", "stack", attack, stay}, false},
		{"data that is readable only", e.limits, []string{"held", "read-only", attack, stay}, false},
		{"page tables", e.limits, []string{"held", "page-tables", attack, stay}, false},
		{"large buffers of sockets", e.limits, []string{"held", "socket-buffers", attack, stay}, false},
		{"many sockets of many processes", e.limits, []string{"held-by-children", "16", "sockets", "32", stay}, false},
		{"sockets that are in flight", e.limits, []string{"held", "descriptors-in-flight", "90", stay}, true},
		{"large buffers of pipes", e.limits, []string{"held", "pipe-buffers", attack, stay}, true},
		{"many pipes of many processes", e.limits, []string{"held-by-children", "16", "pipes", "12", stay}, true},
		{"locks of files", e.limits, []string{"held-by-children", "16", "locks", "12", stay}, false},
		{"queues of TCP", &online, []string{"held", "tcp", attack, stay}, false},
		{"splice", e.limits, []string{"held", "call", "splice"}, false},
		{"tee", e.limits, []string{"held", "call", "tee"}, false},
		{"vmsplice", e.limits, []string{"held", "call", "vmsplice"}, false},
		{"sendfile", e.limits, []string{"held", "call", "sendfile"}, false},
		{"asynchronous requests", e.limits, []string{"held", "call", "io_setup"}, false},
		{"rules of Landlock", e.limits, []string{"held", "call", "landlock_create_ruleset"}, false},
		{"locks without a process", e.limits, []string{"held", "call", "lock without a process"}, false},
	} {
		count++
		r := e.runProbe(t, row.limits, row.args...)
		if r.Exit == 0 {
			escaped++
			t.Errorf("%s: the program held its memory: %s", row.name, r.Stdout)
		}
		t.Logf("%s: exit %d, exceeded %v, %s", row.name, r.Exit, r.MemoryExceeded, firstLine(r.Stderr))
		if row.rootOnly && os.Getuid() != 0 {
			continue
		}
		args := strings.Split(strings.TrimSuffix(strings.Join(row.args, "\n"), "\n"+stay), "\n")
		if row.args[1] != "call" {
			args = append(args, "0")
		}
		if r := e.runProbe(t, nil, args...); r.Exit != 0 {
			t.Errorf("%s: the control failed: %s", row.name, r.Stderr)
		}
	}
	t.Logf("shown: %d of %d ways to hold four times the memory limit succeeded; control: each succeeds without the sandbox", escaped, count)
}

// TestChargedPrograms expects what programs ordinarily have open to stay far below a limit:
// pipes, sockets and locks are charged, not forbidden.
func TestChargedPrograms(t *testing.T) {
	if err := Available(); err != nil {
		t.Skip(err)
	}
	e := newEnv(t)
	e.limits.Memory = 128 << 20
	for _, args := range [][]string{{"held", "sockets", "4", "1"}, {"held", "pipes", "1", "1"}, {"held", "locks", "4", "1"}} {
		if r := e.runProbe(t, e.limits, args...); r.Exit != 0 || r.MemoryExceeded {
			t.Errorf("%v: %s", args, fmt.Sprintf("exit %d, exceeded %v, %s", r.Exit, r.MemoryExceeded, r.Stderr))
		}
	}
}
