//go:build amd64 || arm64

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// An env is a place for programs: folders that every user can enter, and this binary in
// one of them.
type env struct {
	work, outside, program string
	limits                 *Limits
}

const testUser = 45678

func newEnv(t *testing.T) *env {
	t.Helper()
	base, err := os.MkdirTemp("", "sandbox-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	e := &env{work: filepath.Join(base, "work"), outside: filepath.Join(base, "outside"), program: filepath.Join(base, "bin", "probe")}
	for _, dir := range []string{base, e.work, e.outside, filepath.Dir(e.program)} {
		if err := errors.Join(os.MkdirAll(dir, 0o777), os.Chmod(dir, 0o777)); err != nil {
			t.Fatal(err)
		}
	}
	in, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(e.program, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	out.Close()
	e.writeFile(t, "secret", "canary")
	e.limits = &Limits{Read: []string{"/usr"}, Write: []string{e.work}, Memory: 256 << 20, Processes: 64, FileSize: 8 << 20}
	if os.Getuid() == 0 {
		e.limits.User = testUser
	}
	return e
}

func (e *env) writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(e.outside, name)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func helper() []string { return []string{"/proc/self/exe", HelperCommand} }

// runProbe runs this binary's probe in or without the sandbox.
func (e *env) runProbe(t *testing.T, l *Limits, args ...string) *Result {
	t.Helper()
	r, err := RunProgram(t.Context(), helper(), &Program{
		Path: e.program, Args: append([]string{"probe", "probe"}, args...), Env: []string{"PROBE=" + e.program}, Dir: e.work, MaxOutput: 1 << 16, Limits: l,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestEscapes runs programs that try to leave the sandbox. Each row's control is the same program
// without limits: it succeeds.
func TestEscapes(t *testing.T) {
	if err := Available(); err != nil {
		t.Skip(err)
	}
	e := newEnv(t)
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer tcp.Close()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	defer udp.Close()
	sock := filepath.Join(e.outside, "sock")
	socket, err := net.Listen("unix", sock)
	must(t, err)
	defer socket.Close()
	must(t, os.Chmod(sock, 0o777))
	abstract, err := net.Listen("unix", fmt.Sprintf("@agenthost-%d", os.Getpid()))
	must(t, err)
	defer abstract.Close()
	datagrams := filepath.Join(e.outside, "datagrams")
	log, err := net.ListenPacket("unixgram", datagrams)
	must(t, err)
	defer log.Close()
	must(t, os.Chmod(datagrams, 0o777))
	shared, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o666)
	must(t, err)
	defer func() { _, _ = unix.SysvShmCtl(shared, unix.IPC_RMID, nil) }()
	pid, secret := fmt.Sprint(os.Getpid()), filepath.Join(e.outside, "secret")
	rows := [][]string{
		{"read a file outside", "read", secret},
		{"write a file outside", "write", filepath.Join(e.outside, "new")},
		{"list a folder outside", "list", e.outside},
		{"follow a symlink", "symlink", secret},
		{"make a hard link", "hardlink", secret},
		{"change the mode of a file outside", "chmod", secret},
		{"use TCP", "dial", "tcp", tcp.Addr().String()},
		{"use UDP", "dial", "udp", udp.LocalAddr().String()},
		{"use a unix socket", "dial", "unix", sock},
		{"use an abstract socket", "dial", "unix", abstract.Addr().String()},
		{"send a datagram to a unix socket", "datagram", datagrams},
		{"use shared memory of the host", "shared-memory", fmt.Sprint(shared)},
		{"signal the host", "signal", pid},
		{"read the limits of the host", "prlimit", pid},
		{"read the environment of the host", "read", "/proc/" + pid + "/environ"},
		{"read the command lines of the machine", "read", "/proc/1/cmdline"},
		{"enter a user namespace", "unshare"},
		{"write a large file", "file", "16"},
		{"use much memory", "memory", "512"},
		{"start many processes", "processes", "80"},
	}
	escaped := 0
	for _, row := range rows {
		for _, name := range []string{"link", "hard", "big"} {
			os.Remove(filepath.Join(e.work, name))
		}
		os.Remove(filepath.Join(e.outside, "new"))
		r := e.runProbe(t, e.limits, row[1:]...)
		if r.Exit == 0 {
			escaped++
			t.Errorf("%s: the program escaped: %s", row[0], r.Stdout)
		}
		t.Logf("%s: exit %d, %s", row[0], r.Exit, firstLine(r.Stderr))
		os.Remove(filepath.Join(e.work, "link"))
		if row[1] == "unshare" {
			continue // a process with several threads cannot, with any permission
		}
		if r := e.runProbe(t, nil, row[1:]...); r.Exit != 0 {
			t.Errorf("%s: the control failed: %s", row[0], r.Stderr)
		}
	}
	t.Logf("shown: %d of %d attempts escaped; control: each succeeds without the sandbox", escaped, len(rows))
}

func firstLine(b []byte) string { line, _, _ := strings.Cut(string(b), "\n"); return line }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestSandboxAllows expects a program to work within its limits: its folder, its
// children, its input.
func TestSandboxAllows(t *testing.T) {
	if err := Available(); err != nil {
		t.Skip(err)
	}
	e := newEnv(t)
	own := filepath.Join(e.work, "own")
	for _, args := range [][]string{{"write", own}, {"read", own}, {"list", e.work}, {"memory", "100"}, {"file", "4"}, {"processes", "3"}, {"read", "/dev/null"}, {"pair"}} {
		if r := e.runProbe(t, e.limits, args...); r.Exit != 0 {
			t.Errorf("%v: exit %d, %s", args, r.Exit, r.Stderr)
		}
	}
	network := *e.limits
	network.Network = true
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer tcp.Close()
	if r := e.runProbe(t, &network, "dial", "tcp", tcp.Addr().String()); r.Exit != 0 {
		t.Errorf("network: %s", r.Stderr)
	}
	if r := e.runProbe(t, &network, "dial", "unix", "/run/docker.sock"); r.Exit == 0 || !strings.Contains(string(r.Stderr), "operation not permitted") {
		t.Errorf("unix sockets with network: exit %d, %s", r.Exit, r.Stderr)
	}
}

// TestSandboxMemoryOfChildren expects the processes' memory to be limited together.
func TestSandboxMemoryOfChildren(t *testing.T) {
	if err := Available(); err != nil {
		t.Skip(err)
	}
	e := newEnv(t)
	r := e.runProbe(t, e.limits, "memory-of-children", "12")
	if !r.MemoryExceeded || r.Exit != 128+int(syscall.SIGKILL) {
		t.Errorf("12 children of 48 MiB within 256 MiB: exit %d, exceeded %v, %s", r.Exit, r.MemoryExceeded, r.Stderr)
	}
	if r := e.runProbe(t, nil, "memory-of-children", "12"); r.Exit != 0 {
		t.Errorf("control: exit %d, %s", r.Exit, r.Stderr)
	}
}

// TestProgramTreeEnds expects no process to remain: neither after the program has exited,
// nor after its time is over, also if a process has left the group and the session.
func TestProgramTreeEnds(t *testing.T) {
	e := newEnv(t)
	for _, l := range []*Limits{nil, e.limits} {
		if l != nil && Available() != nil {
			continue
		}
		r := e.runProbe(t, l, "orphan")
		pid := 0
		if _, err := fmt.Sscan(string(r.Stdout), &pid); err != nil {
			t.Fatalf("no process ID in %q: %s", r.Stdout, r.Stderr)
		}
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d remains: %v", pid, err)
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, errors.New("its time is over"))
		defer cancel()
		began := time.Now()
		_, err := RunProgram(ctx, helper(), &Program{Path: e.program, Args: []string{"probe", "probe", "sleep", "60"}, Dir: e.work, Limits: l})
		if err == nil || err.Error() != "its time is over" || time.Since(began) > 4*time.Second {
			t.Errorf("timeout: %v after %s", err, time.Since(began))
		}
	}
	if left := listDescendants(); len(left) > 0 {
		t.Errorf("processes remain: %v", left)
	}
}

// TestProgramBounds covers output, input, environment, descriptors and exit codes.
func TestProgramBounds(t *testing.T) {
	e := newEnv(t)
	r, err := RunProgram(t.Context(), helper(), &Program{Path: e.program, Args: []string{"probe", "probe", "output", "8"}, Dir: e.work, MaxOutput: 1000})
	must(t, err)
	if len(r.Stdout) != 1000 || r.StdoutDropped != 8<<20-1000 {
		t.Errorf("output: %d kept, %d dropped", len(r.Stdout), r.StdoutDropped)
	}
	r, err = RunProgram(t.Context(), helper(), &Program{Path: e.program, Args: []string{"probe", "probe", "echo"}, Dir: e.work, MaxOutput: 1000, Stdin: []byte("hello")})
	must(t, err)
	if string(r.Stdout) != "hello" {
		t.Errorf("input: %q", r.Stdout)
	}
	t.Setenv("HOST_SECRET", "x")
	for _, l := range []*Limits{nil, e.limits} {
		if l != nil && Available() != nil {
			continue
		}
		if r := e.runProbe(t, l, "environment"); strings.TrimSpace(string(r.Stdout)) != "PROBE="+e.program {
			t.Errorf("environment: %q", r.Stdout)
		}
		if r := e.runProbe(t, l, "descriptors"); string(r.Stdout) != "0 1 2" {
			t.Errorf("descriptors: %q", r.Stdout)
		}
		if r := e.runProbe(t, l, "none"); r.Exit != 1 {
			t.Errorf("exit = %d", r.Exit)
		}
	}
}

// TestSandboxErrors covers programs that cannot start.
func TestSandboxErrors(t *testing.T) {
	e := newEnv(t)
	bad := *e.limits
	bad.Read = []string{"/missing"}
	asRoot := *e.limits
	asRoot.User = 0
	for _, tt := range []struct {
		p    Program
		want string
	}{
		{Program{Path: "/no/program", Args: []string{"x"}, Dir: "/"}, "starting the program: no such file or directory"},
		{Program{Path: "/no/program", Args: []string{"x"}, Dir: "/", Limits: e.limits}, "sandbox: open /no/program: no such file or directory"},
		{Program{Path: e.program, Args: []string{"x"}, Dir: "/", Limits: &bad}, "sandbox: open /missing: no such file or directory"},
		{Program{Path: e.program, Args: []string{"x"}, Dir: e.work + "/none", Limits: e.limits}, "sandbox: chdir " + e.work + "/none: no such file or directory"},
		{Program{Path: e.program, Args: []string{"x\x00y"}, Dir: "/", Limits: e.limits}, "an argument or variable contains a null byte"},
		{Program{Path: e.outside, Args: []string{"x"}, Dir: "/", Limits: e.limits}, "starting the program: permission denied"},
		{Program{Path: e.program, Args: []string{"x"}, Dir: "/", Limits: &asRoot}, "sandbox: a sandbox of root requires another user"},
	} {
		if tt.p.Limits != nil && (Available() != nil || os.Getuid() != 0) {
			continue
		}
		if _, err := RunProgram(t.Context(), helper(), &tt.p); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v, want %s", tt.p.Path, err, tt.want)
		}
	}
	for version, want := range map[int]string{0: "no Landlock", 5: "requires version 6", 6: ""} {
		if err := checkVersion(version); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("version %d: %v", version, err)
		}
	}
}
