//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// holdMemory makes the kernel hold bytes for this process in one way, and then stays for some
// seconds. It returns an error if it cannot.
func holdMemory(way string, size, seconds int) error {
	var held int
	var err error
	for held < size && err == nil {
		var more int
		more, err = holdMore(way)
		held += more
	}
	if err != nil {
		return fmt.Errorf("%d MiB held: %w", held>>20, err)
	}
	time.Sleep(time.Duration(seconds) * time.Second)
	fmt.Printf("%d MiB held\n", held>>20)
	return nil
}

const holdStep = 16 << 20

// heldFiles keeps files from the garbage collector.
var heldFiles []any

// holdMore holds some more bytes, and returns how many.
func holdMore(way string) (int, error) {
	switch way {
	case "shared":
		return holdMapping(-1, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	case "zero-device":
		fd, err := unix.Open("/dev/zero", unix.O_RDWR, 0)
		if err != nil {
			return 0, err
		}
		return holdMapping(fd, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	case "memory-file":
		fd, err := unix.MemfdCreate("held", 0)
		if err != nil {
			return 0, err
		}
		return holdStep, unix.Fallocate(fd, 0, 0, holdStep)
	case "stack":
		return holdMapping(-1, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_GROWSDOWN)
	case "read-only":
		return holdMapping(-1, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	case "page-tables":
		return holdPageTables()
	case "socket-buffers":
		return holdSocket(4 << 20)
	case "sockets":
		return holdSocket(0)
	case "descriptors-in-flight":
		return holdInFlight()
	case "pipe-buffers":
		return holdPipe(1 << 20)
	case "pipes":
		return holdPipe(0)
	case "locks":
		return holdLocks()
	case "tcp":
		return holdTCP()
	}
	return 0, fmt.Errorf("unknown way %s", way)
}

// holdMapping writes a new mapping. If it is shared, the process then no longer has its pages;
// if it is to be readable only, it is no longer data.
func holdMapping(fd, protection, flags int) (int, error) {
	b, err := unix.Mmap(fd, 0, holdStep, unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		return 0, err
	}
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	if protection == unix.PROT_READ {
		return len(b), unix.Mprotect(b, protection)
	}
	if flags&unix.MAP_SHARED != 0 {
		err = unix.Madvise(b, unix.MADV_DONTNEED)
		if err == nil && b[0] != 1 {
			err = errors.New("the memory was freed")
		}
	}
	return len(b), err
}

// holdPageTables reads one page for each table in a mapping that is never written.
func holdPageTables() (int, error) {
	const size, table = 8 << 30, 2 << 20
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return 0, err
	}
	_ = unix.Madvise(b, unix.MADV_NOHUGEPAGE)
	sum := 0
	for i := 0; i < size; i += table {
		sum += int(b[i])
	}
	return size/table*4096 + sum, nil
}

// fillSocket returns one end of a pair with unread data that fills the other end's buffer.
func fillSocket(buffer int) (fd, size int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return 0, 0, err
	}
	defer unix.Close(pair[0])
	if buffer > 0 {
		if err := unix.SetsockoptInt(pair[0], unix.SOL_SOCKET, unix.SO_SNDBUF, buffer); err != nil {
			return 0, 0, err
		}
	}
	size, err = fillDescriptor(pair[0])
	return pair[1], size, err
}

// fillDescriptor writes until nothing more is accepted.
func fillDescriptor(fd int) (size int, err error) {
	for b := make([]byte, 64<<10); err == nil; {
		var n int
		if n, err = unix.Write(fd, b); n > 0 {
			size += n
		}
	}
	if errors.Is(err, unix.EAGAIN) {
		err = nil
	}
	return size, err
}

func holdSocket(buffer int) (int, error) {
	_, size, err := fillSocket(buffer)
	return size, err
}

// holdInFlight holds sockets that no process has open: their message has no reader.
func holdInFlight() (int, error) {
	carrier, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return 0, err
	}
	held := 0
	for range 50 {
		fd, size, err := fillSocket(0)
		if err != nil {
			return held, err
		}
		err = unix.Sendmsg(carrier[0], []byte("x"), unix.UnixRights(fd), nil, 0)
		unix.Close(fd)
		if err != nil {
			return held, err
		}
		held += size
	}
	return held, nil
}

func holdPipe(buffer int) (int, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_NONBLOCK); err != nil {
		return 0, err
	}
	defer unix.Close(ends[1])
	if buffer > 0 {
		if _, err := unix.FcntlInt(uintptr(ends[1]), unix.F_SETPIPE_SZ, buffer); err != nil {
			return 0, err
		}
	}
	return fillDescriptor(ends[1])
}

// holdLocks locks every second byte of a new file: the kernel compares a lock with all others on
// its file.
func holdLocks() (int, error) {
	f, err := os.CreateTemp(".", "locked")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	heldFiles = append(heldFiles, f)
	const count, size = 300, 200 // at least, for a struct file_lock
	for i := range int64(count) {
		if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Start: 2 * i, Len: 1}); err != nil {
			return 0, err
		}
	}
	return count * size, nil
}

// holdTCP fills a connection from this process to itself.
func holdTCP() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return 0, err
	}
	peer, err := l.Accept()
	if err != nil {
		return 0, err
	}
	heldFiles = append(heldFiles, c, peer)
	held := 0
	for b := make([]byte, 256<<10); ; {
		_ = c.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)) // its buffers grow step by step
		n, err := c.Write(b)
		held += n
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return held, nil
		}
		if err != nil {
			return held, err
		}
	}
}

// tryCall makes one system call by which memory is held for a process.
func tryCall(name string) error {
	fd, err := unix.Open("/proc/self/exe", unix.O_RDONLY, 0)
	if os.Getenv("PROBE") != "" {
		fd, err = unix.Open(os.Getenv("PROBE"), unix.O_RDONLY, 0)
	}
	if err != nil {
		return err
	}
	var a, b [2]int
	if err := errors.Join(unix.Pipe(a[:]), unix.Pipe(b[:])); err != nil {
		return err
	}
	if _, err := unix.Write(a[1], []byte("x")); err != nil {
		return err
	}
	switch name {
	case "splice":
		_, err = unix.Splice(fd, nil, a[1], nil, 4096, 0)
	case "tee":
		_, err = unix.Tee(a[0], b[1], 1, 0)
	case "vmsplice":
		page := slices.Repeat([]byte("x"), 4096)
		_, err = unix.Vmsplice(a[1], []unix.Iovec{{Base: &page[0], Len: uint64(len(page))}}, 0)
	case "sendfile":
		_, err = unix.Sendfile(a[1], fd, nil, 4096)
	case "io_setup":
		var ring uintptr
		if _, _, errno := unix.Syscall(unix.SYS_IO_SETUP, 8, uintptr(unsafe.Pointer(&ring)), 0); errno != 0 {
			err = errno
		}
	case "landlock_create_ruleset":
		attr := unix.LandlockRulesetAttr{Handled_access_net: unix.LANDLOCK_ACCESS_NET_BIND_TCP}
		if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0); errno != 0 {
			err = errno
		}
	case "lock without a process":
		var f *os.File
		if f, err = os.CreateTemp(".", "locked"); err == nil {
			err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Len: 1})
		}
	default:
		err = fmt.Errorf("unknown call %s", name)
	}
	return err
}

// runHolder runs the probes for held memory.
func runHolder(args []string) error {
	if args[0] == "call" {
		return tryCall(args[1])
	}
	size, _ := strconv.Atoi(args[1])
	seconds, _ := strconv.Atoi(args[2])
	return holdMemory(args[0], size<<20, seconds)
}
