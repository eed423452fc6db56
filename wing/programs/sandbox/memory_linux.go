//go:build amd64 || arm64

package sandbox

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Without a control group, the helper adds up a program's memory again and again. The kernel also
// holds memory for a process outside its pages: unread data in sockets and pipes, page tables,
// locks. The meter charges each of them with its maximum, and the filter denies the kinds that have
// none (see [filter.denyHeldMemory]). So a program exceeds its limit at most by the memory that it
// takes between two measurements.

// memoryInterval is how often all processes' memory is added up. A measurement takes at most a
// tenth of the time, unless it takes long: a program that makes measurements slow, such as by a
// million locks, must not gain time by that.
const (
	memoryInterval    = 50 * time.Millisecond
	maxMemoryInterval = time.Second
)

// pauseAfter returns how long the meter waits after a measurement.
func pauseAfter(measurement time.Duration) time.Duration {
	return min(max(memoryInterval, 9*measurement), maxMemoryInterval)
}

// Charges for open descriptors and locks, in bytes.
const (
	pipeCharge       = 64 << 10 // F_SETPIPE_SZ is denied
	descriptorCharge = 4 << 10
	eventPollCharge  = 64 << 10 // one item for each open file
	lockCharge       = 256
)

// A memoryMeter adds up the memory that all this process's descendants use.
type memoryMeter struct {
	// socketCharge is the most that a socket holds with its default buffers.
	socketCharge int64
	// network adds the TCP queues, whose buffers grow by themselves.
	network bool
}

func newMemoryMeter(network bool) *memoryMeter {
	buffer := max(readNumber("/proc/sys/net/core/wmem_default"), readNumber("/proc/sys/net/core/rmem_default"), 208<<10)
	return &memoryMeter{socketCharge: 2 * buffer, network: network} // a message begins below the limit, and may be as long
}

// readNumber returns the number in a file, or 0.
func readNumber(path string) int64 {
	text, _ := os.ReadFile(path)
	n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n
}

// measureMemory returns all descendants' memory in bytes.
func (m *memoryMeter) measureMemory() (sum int64) {
	sockets := map[string]bool{}
	for _, p := range listDescendants() {
		pages, slots := sumPages(p.pid)
		sum += pages + m.chargeDescriptors(p.pid, slots, sockets)
	}
	if m.network && len(sockets) > 0 {
		sum += sumQueues(sockets)
	}
	return sum
}

// sumPages returns a process's pages in bytes, anonymous, shared and swapped ones and page tables,
// without file pages; and the size of its descriptor table.
func sumPages(pid int) (pages, slots int64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // it may have exited
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
		switch name {
		case "RssAnon", "RssShmem", "VmSwap", "VmPTE":
			pages += n << 10
		case "FDSize":
			slots = n
		}
	}
	return pages, slots
}

// chargeDescriptors returns the charge for a process's open descriptors, and adds its sockets.
// Where their kind cannot be read, each slot in the table is charged as a socket.
func (m *memoryMeter) chargeDescriptors(pid int, slots int64, sockets map[string]bool) (sum int64) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if os.IsPermission(err) {
		return slots * m.socketCharge
	}
	for _, e := range entries {
		target, _ := os.Readlink(filepath.Join(dir, e.Name()))
		switch kind, id, _ := strings.Cut(target, ":"); {
		case kind == "socket":
			if id = strings.Trim(id, "[]"); !sockets[id] {
				sum += m.socketCharge
			}
			sockets[id] = true
		case kind == "pipe":
			sum += pipeCharge
		case target == "anon_inode:[eventpoll]":
			sum += eventPollCharge
		case strings.HasPrefix(target, "/"):
			sum += descriptorCharge + chargeLocks(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, e.Name()))
		default:
			sum += descriptorCharge
		}
	}
	return sum
}

// sumQueues returns the bytes in the queues of IPv4 and IPv6 sockets.
func sumQueues(sockets map[string]bool) (sum int64) {
	for _, protocol := range []string{"tcp", "tcp6", "udp", "udp6"} {
		text, _ := os.ReadFile("/proc/self/net/" + protocol)
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if len(fields) < 10 || !sockets[fields[9]] {
				continue
			}
			sent, received, _ := strings.Cut(fields[4], ":")
			for _, queue := range []string{sent, received} {
				n, _ := strconv.ParseInt(queue, 16, 64)
				sum += n
			}
		}
	}
	return sum
}

// chargeLocks returns the charge for the locks that a process has on an open file. It counts only
// the first locks.
func chargeLocks(info string) (sum int64) {
	const most = 16 << 20
	f, err := os.Open(info)
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan() && sum < most; {
		if strings.HasPrefix(lines.Text(), "lock:") {
			sum += lockCharge
		}
	}
	return sum
}
