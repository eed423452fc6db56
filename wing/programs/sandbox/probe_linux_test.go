//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain lets this binary be the helper, and the program that tries to escape.
func TestMain(m *testing.M) {
	ServeHelper(os.Args[1:])
	if len(os.Args) > 2 && os.Args[1] == "probe" {
		text, err := runProbe(os.Args[2], os.Args[3:])
		fmt.Print(text)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// runProbe attempts one thing that a sandbox prevents.
func runProbe(name string, args []string) (string, error) {
	switch name {
	case "read":
		b, err := os.ReadFile(args[0])
		return string(b), err
	case "write":
		return "", os.WriteFile(args[0], []byte("written"), 0o600)
	case "list":
		entries, err := os.ReadDir(args[0])
		return fmt.Sprint(len(entries)), err
	case "symlink":
		if err := os.Symlink(args[0], "link"); err != nil {
			return "", err
		}
		return runProbe("read", []string{"link"})
	case "hardlink":
		if err := os.Link(args[0], "hard"); err != nil {
			return "", err
		}
		return runProbe("read", []string{"hard"})
	case "chmod":
		return "", os.Chmod(args[0], 0o777)
	case "dial":
		conn, err := net.DialTimeout(args[0], args[1], time.Second)
		if err == nil {
			_, err = conn.Write([]byte("x"))
		}
		return "", err
	case "datagram": // from a pair's end, which exists without a socket
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return "", err
		}
		return "", unix.Sendto(pair[0], []byte("datagram"), 0, &unix.SockaddrUnix{Name: args[0]})
	case "pair":
		_, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		return "", err
	case "shared-memory": // another process's, by its number
		id, err := strconv.Atoi(args[0])
		if err != nil {
			return "", err
		}
		_, err = unix.SysvShmCtl(id, unix.IPC_STAT, &unix.SysvShmDesc{})
		return "", err
	case "signal":
		pid, _ := strconv.Atoi(args[0])
		return "", syscall.Kill(pid, 0)
	case "prlimit":
		pid, _ := strconv.Atoi(args[0])
		return "", unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &unix.Rlimit{})
	case "descriptors":
		return listDescriptors(), nil
	case "environment":
		return strings.Join(os.Environ(), "\n"), nil
	case "unshare":
		return "", unix.Unshare(unix.CLONE_NEWUSER)
	case "held":
		return "", runHolder(args)
	case "held-by-children":
		n, _ := strconv.Atoi(args[0])
		return startChildren(n, append([]string{"held"}, args[1:]...)...)
	}
	return runHungryProbe(name, args)
}

// runHungryProbe attempts to use more than its share.
func runHungryProbe(name string, args []string) (string, error) {
	n := 0
	if len(args) > 0 {
		n, _ = strconv.Atoi(args[0])
	}
	switch name {
	case "memory": // in MiB
		b := make([]byte, n<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		time.Sleep(200 * time.Millisecond)
		return fmt.Sprint(len(b)), nil
	case "memory-of-children":
		return startChildren(n, "memory", "48")
	case "processes":
		return startChildren(n, "sleep", "10")
	case "sleep":
		time.Sleep(time.Duration(n) * time.Second)
		return "", nil
	case "file": // in MiB
		return "", os.WriteFile("big", make([]byte, n<<20), 0o600)
	case "output":
		_, err := io.CopyN(os.Stdout, endless{}, int64(n)<<20)
		return "", err
	case "orphan":
		cmd := exec.Command("/proc/self/exe", "probe", "sleep", "60")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		cmd.Stdout = os.Stdout
		err := cmd.Start()
		return fmt.Sprint(cmd.Process.Pid), err
	case "echo":
		b, err := io.ReadAll(os.Stdin)
		return string(b), err
	}
	return "", fmt.Errorf("unknown probe %s", name)
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// startChildren starts children and returns how many started.
func startChildren(n int, args ...string) (string, error) {
	var started []*exec.Cmd
	var err error
	for range n {
		cmd := exec.Command("/proc/self/exe", append([]string{"probe"}, args...)...)
		if os.Getenv("PROBE") != "" {
			cmd.Path = os.Getenv("PROBE")
		}
		if err = cmd.Start(); err != nil {
			break
		}
		started = append(started, cmd)
	}
	for _, cmd := range started {
		if args[0] == "sleep" {
			_ = cmd.Process.Kill()
		}
		if waitErr := cmd.Wait(); args[0] == "held" {
			err = errors.Join(err, waitErr)
		}
	}
	return fmt.Sprint(len(started)), err
}

func listDescriptors() string {
	var open []string
	for fd := range 1024 {
		var s unix.Stat_t
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 && unix.Fstat(fd, &s) == nil {
			open = append(open, strconv.Itoa(fd))
		}
	}
	return strings.Join(open, " ")
}
