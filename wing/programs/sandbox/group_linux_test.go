//go:build amd64 || arm64

package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// openTestGroups delegates a new control group to this process, as systemd does. It returns an
// error where the machine limits no memory in version 2 control groups.
func openTestGroups(t *testing.T) (*Groups, error) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	own, err := os.ReadFile("/proc/self/cgroup")
	must(t, err)
	before, _, err := findGroup(string(mounts), string(own))
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(before, "agenthost-test-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		_, _ = moveProcesses(dir, before), moveProcesses(filepath.Join(dir, hostGroup), before)
		_ = unix.Rmdir(filepath.Join(dir, hostGroup))
		if err := unix.Rmdir(dir); err != nil {
			t.Errorf("removing the control group of the test: %v", err)
		}
	})
	must(t, unix.Setxattr(dir, "user.delegate", []byte("1"), 0))
	must(t, writeGroupFile(dir, "cgroup.procs", strconv.Itoa(os.Getpid())))
	other := exec.Command("/proc/self/exe", "probe", "sleep", "600") // as an MCP server's program
	must(t, other.Start())
	t.Cleanup(func() { _, _ = other.Process.Kill(), other.Wait() })
	return OpenGroups()
}

// TestProgramGroups expects the kernel to limit a program in a control group at every moment: its
// peak is at most the limit, also for many processes and for memory that no process has. The
// control is a program below the limit. Without such groups, OpenGroups returns the reason, and
// TestHeldMemory has the limits that hold then.
func TestProgramGroups(t *testing.T) {
	if err := Available(); err != nil {
		t.Skip(err)
	}
	const batch = 1 << 20 // the kernel charges pages in batches for each processor
	g, err := openTestGroups(t)
	if err != nil {
		if g, err := OpenGroups(); err == nil {
			t.Errorf("OpenGroups() = %+v, want an error as this machine has no groups", g)
		}
		t.Logf("no control groups here: %v", err)
		return
	}
	e := newEnv(t)
	if again, err := OpenGroups(); err != nil || again.dir != g.dir {
		t.Errorf("opened again: %v, %v", again, err)
	}
	for _, tt := range []struct {
		name     string
		args     []string
		exceeded bool
	}{
		{"many processes", []string{"memory-of-children", "12"}, true},
		{"data that is readable only", []string{"held", "read-only", "512", "0"}, true},
		{"page tables", []string{"held", "page-tables", "512", "0"}, true},
		{"many sockets", []string{"held-by-children", "12", "sockets", "40", "0"}, true},
		{"little memory", []string{"held", "read-only", "64", "0"}, false},
		{"large file", []string{"file", "8"}, false},
	} {
		limits := *e.limits
		dir, remove, err := g.NewGroup(&limits)
		must(t, err)
		limits.Group = dir
		r := e.runProbe(t, &limits, tt.args...)
		peak, _ := os.ReadFile(filepath.Join(dir, "memory.peak"))
		most, _ := strconv.ParseInt(strings.TrimSpace(string(peak)), 10, 64)
		t.Logf("shown: %s in a control group: exit %d, exceeded %v, at most %d MiB", tt.name, r.Exit, r.MemoryExceeded, most>>20)
		if r.MemoryExceeded != tt.exceeded || (r.Exit == 0) == tt.exceeded || most > limits.Memory+batch {
			t.Errorf("%s: exit %d, exceeded %v, %d bytes at most, %s", tt.name, r.Exit, r.MemoryExceeded, most, r.Stderr)
		}
		remove()
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("the group %s remains", dir)
		}
	}
}

// TestFindGroup covers the places where a process has its control group.
func TestFindGroup(t *testing.T) {
	const (
		v1      = "30 23 0:26 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
		unified = "31 23 0:27 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw\n"
		bound   = "32 23 0:27 /system.slice/x.service /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
	)
	for _, tt := range []struct{ mounts, own, dir, path string }{
		{unified, "0::/system.slice/x.service\n", "/sys/fs/cgroup/system.slice/x.service", "/system.slice/x.service"},
		{v1 + unified, "4:memory:/y\n0::/\n", "/sys/fs/cgroup", "/"},
		{bound, "0::/system.slice/x.service/agenthost\n", "/sys/fs/cgroup/agenthost", "/system.slice/x.service/agenthost"},
		{bound, "0::/other\n", "", ""},
		{v1, "4:memory:/y\n", "", ""},
	} {
		dir, path, err := findGroup(tt.mounts, tt.own)
		if dir != tt.dir || path != tt.path || (err == nil) != (tt.dir != "") {
			t.Errorf("%q: %q, %q, %v", tt.own, dir, path, err)
		}
	}
}
