//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A process is identified by its ID and its start time, because IDs are reused.
type process struct {
	pid   int
	start string
}

// listDescendants lists the processes that descend from this one. As a subreaper, this process is
// an ancestor of everything that its children start.
func listDescendants() []process {
	return appendChildren(nil, os.Getpid(), 0)
}

// maxTreeDepth limits the process tree's depth.
const maxTreeDepth = 10_000

func appendChildren(all []process, parent, depth int) []process {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", parent))
	if err != nil || depth > maxTreeDepth {
		return all // it has exited
	}
	for _, task := range tasks {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", parent, task.Name()))
		for field := range strings.FieldsSeq(string(text)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				continue
			}
			if start, ok := readStartTime(pid); ok {
				all = appendChildren(append(all, process{pid, start}), pid, depth+1)
			}
		}
	}
	return all
}

// readStartTime returns a process's start time, field 22 in proc_pid_stat(5).
func readStartTime(pid int) (string, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", false
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 20 {
		return "", false
	}
	return fields[19], true
}

// killDescendants kills all descendants. It stops them first, so that fewer start others.
func killDescendants() {
	all := listDescendants()
	for _, sig := range []unix.Signal{unix.SIGSTOP, unix.SIGKILL} {
		for _, p := range all {
			p.sendSignal(sig)
		}
	}
}

// sendSignal sends a signal unless the process has exited and its ID was reused.
func (p process) sendSignal(sig unix.Signal) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if start, ok := readStartTime(p.pid); ok && start == p.start {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}
