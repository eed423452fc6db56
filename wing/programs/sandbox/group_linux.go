//go:build amd64 || arm64

package sandbox

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Groups gives each program its own control group (version 2): the kernel then limits all its
// processes' memory, at every moment, also what it holds for them. A group with processes cannot
// have groups with limits below it, so the host first moves to its own group.
type Groups struct {
	dir string
}

// Group names below the delegated one: the host's, and the programs'.
const (
	hostGroup     = "agenthost"
	programPrefix = "program-"
)

// moreTasks is what the helper uses in a group until it becomes the program.
const moreTasks = 32

// OpenGroups prepares the control group that was delegated to this process, and moves the process
// to a group below it. It returns an error if there is none. Groups that dead processes left are
// removed.
func OpenGroups() (*Groups, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	dir, path, err := findGroup(string(mounts), string(own))
	if err != nil {
		return nil, err
	}
	if filepath.Base(path) == hostGroup {
		dir, path = filepath.Dir(dir), filepath.Dir(path)
	}
	if path != "/" && !isDelegated(dir) { // a container has its namespace's root
		return nil, fmt.Errorf("the control group %s is not delegated to this process", dir)
	}
	g := &Groups{dir: dir}
	if err := g.enableControllers(); err != nil {
		return nil, err
	}
	old, _ := filepath.Glob(filepath.Join(dir, programPrefix+"*"))
	for _, path := range old {
		_ = unix.Rmdir(path) // fails if it has processes
	}
	return g, nil
}

// findGroup returns the folder of a process's control group, and its path in the namespace.
func findGroup(mounts, own string) (dir, path string, err error) {
	found := false
	for line := range strings.Lines(own) {
		if path, found = strings.CutPrefix(strings.TrimSpace(line), "0::"); found {
			break
		}
	}
	for line := range strings.Lines(mounts) {
		fields := strings.Fields(line) // 31 23 0:27 /root /mount/point rw,… - cgroup2 source options
		at := slices.Index(fields, "-")
		if at < 6 || at+1 >= len(fields) || fields[at+1] != "cgroup2" || !found {
			continue
		}
		below, inside := strings.CutPrefix(path, strings.TrimSuffix(fields[3], "/"))
		if !inside {
			continue
		}
		return filepath.Join(fields[4], below), path, nil
	}
	return "", "", errors.New("no version 2 control groups are mounted for this process")
}

// isDelegated reports whether systemd has delegated a group to its processes.
func isDelegated(dir string) bool {
	value := make([]byte, 8)
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		if n, err := unix.Getxattr(dir, name, value); err == nil && string(value[:n]) == "1" {
			return true
		}
	}
	return false
}

// enableControllers enables limits for groups below the delegated one.
func (g *Groups) enableControllers() error {
	if _, err := os.Stat(filepath.Join(g.dir, "cgroup.events")); err != nil {
		return fmt.Errorf("%s is the control group of the whole machine", g.dir)
	}
	controllers, err := os.ReadFile(filepath.Join(g.dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	if !slices.Contains(strings.Fields(string(controllers)), "memory") {
		return fmt.Errorf("the control group %s has no memory controller", g.dir)
	}
	host := filepath.Join(g.dir, hostGroup)
	if err := os.Mkdir(host, 0o755); err != nil && !os.IsExist(err) {
		return err
	}
	err = moveProcesses(g.dir, host)
	if err == nil {
		err = writeGroupFile(g.dir, "cgroup.subtree_control", "+memory")
	}
	if err != nil {
		_ = moveProcesses(host, g.dir)
		_ = unix.Rmdir(host)
		return err
	}
	_ = writeGroupFile(g.dir, "cgroup.subtree_control", "+pids") // resource limits do that, too
	return nil
}

// moveProcesses moves all processes to another group: this one, and those that it has started.
func moveProcesses(from, to string) error {
	for range 10 { // they start others meanwhile
		text, err := os.ReadFile(filepath.Join(from, "cgroup.procs"))
		if err != nil || len(text) == 0 {
			return err
		}
		for pid := range strings.FieldsSeq(string(text)) {
			if err := writeGroupFile(to, "cgroup.procs", pid); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
	}
	return nil
}

func writeGroupFile(dir, name, value string) error {
	return os.WriteFile(filepath.Join(dir, name), []byte(value), 0) // it exists
}

// NewGroup creates a program's group, for [Limits.Group]. The function removes it, with all
// processes that are left.
func (g *Groups) NewGroup(l *Limits) (dir string, remove func(), err error) {
	dir = filepath.Join(g.dir, programPrefix+rand.Text())
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", nil, fmt.Errorf("creating a control group: %w", err)
	}
	err = writeGroupFile(dir, "memory.max", strconv.FormatInt(max(l.Memory, minGroupMemory), 10))
	if swapErr := writeGroupFile(dir, "memory.swap.max", "0"); !os.IsNotExist(swapErr) { // without swap there is no such file
		err = errors.Join(err, swapErr)
	}
	err = errors.Join(err, writeGroupFile(dir, "memory.oom.group", "1"))
	_ = writeGroupFile(dir, "pids.max", strconv.Itoa(l.Processes+moreTasks))
	if err != nil {
		_ = unix.Rmdir(dir)
		return "", nil, fmt.Errorf("limiting a control group: %w", err)
	}
	return dir, func() { removeGroup(dir) }, nil
}

// minGroupMemory is what the helper needs in a group until it becomes the program.
const minGroupMemory = 32 << 20

// removeGroup kills what is left in a group, and removes it.
func removeGroup(dir string) {
	_ = writeGroupFile(dir, "cgroup.kill", "1")
	for range 100 {
		if err := unix.Rmdir(dir); !errors.Is(err, unix.EBUSY) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// countKills returns how many processes in a group were killed because it exceeded its memory.
func countKills(dir string) (count int64) {
	text, _ := os.ReadFile(filepath.Join(dir, "memory.events"))
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if value, found := strings.CutPrefix(lines.Text(), "oom_kill "); found {
			count, _ = strconv.ParseInt(value, 10, 64)
		}
	}
	return count
}
