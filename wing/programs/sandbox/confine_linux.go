//go:build amd64 || arm64

package sandbox

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// confineAndExecute restricts this process and replaces it with the ordered program. It reports an
// error and exits if that fails. The restrictions apply to one thread; the program inherits them.
func confineAndExecute() {
	runtime.LockOSThread()
	debug.SetGCPercent(-1) // the limits will not leave room for it
	report := os.NewFile(reportFD, "report")
	err := confineProgram(os.NewFile(ordersFD, "orders"))
	fmt.Fprint(report, err)
	os.Exit(helperFailed)
}

func confineProgram(orders *os.File) error {
	var p Program
	if err := json.NewDecoder(orders).Decode(&p); err != nil {
		return fmt.Errorf("sandbox: reading the program: %w", err)
	}
	if p.Limits == nil {
		return fmt.Errorf("sandbox: no limits")
	}
	argv0, err := unix.BytePtrFromString(p.Path)
	if err != nil {
		return err
	}
	argv, err := toPointers(p.Args)
	if err != nil {
		return err
	}
	envp, err := toPointers(p.Env)
	if err != nil {
		return err
	}
	if err := os.Chdir(p.Dir); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	if p.Limits.Group != "" { // before the rules, which do not allow it
		if err := writeGroupFile(p.Limits.Group, "cgroup.procs", "0"); err != nil {
			return fmt.Errorf("sandbox: entering the control group: %w", err)
		}
	}
	if err := restrictThread(p.Path, p.Limits); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	_, _, errno := unix.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(argv0)), uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&envp[0])))
	return fmt.Errorf("starting the program: %w", errno)
}

// toPointers returns strings as C has them: pointers with a null pointer at the end.
func toPointers(all []string) ([]*byte, error) {
	pointers := make([]*byte, len(all)+1)
	for i, text := range all {
		p, err := unix.BytePtrFromString(text)
		if err != nil {
			return nil, fmt.Errorf("an argument or variable contains a null byte")
		}
		pointers[i] = p
	}
	return pointers, nil
}

// restrictThread restricts the calling thread. Each step fails if it has no effect.
func restrictThread(program string, l *Limits) error {
	rules, err := openRuleset(program, l)
	if err != nil {
		return err
	}
	limits, err := resourceLimits(l) // reads /proc, which the rules do not allow
	if err != nil {
		return err
	}
	if err := dropPrivileges(l.User); err != nil {
		return err
	}
	if err := rules.restrictSelf(); err != nil {
		return err
	}
	if err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("closing descriptors: %w", err)
	}
	f := buildFilter(l.Network, l.User == 0)
	if err := setResourceLimits(limits); err != nil {
		return err
	}
	return installFilter(f)
}

// maxOpenFiles limits each process's descriptors, and maxStack its stack, which the data limit does
// not count.
const (
	maxOpenFiles = 256
	maxStack     = 8 << 20
)

type resourceLimit struct {
	resource int
	value    uint64
}

func resourceLimits(l *Limits) ([]resourceLimit, error) {
	processes := uint64(l.Processes)
	if l.User == 0 { // the limit counts all the user's processes
		count, err := countTasks(os.Getuid())
		if err != nil {
			return nil, fmt.Errorf("counting processes: %w", err)
		}
		processes += count
	}
	return []resourceLimit{
		{unix.RLIMIT_CORE, 0},
		{unix.RLIMIT_NPROC, processes},
		{unix.RLIMIT_DATA, uint64(l.Memory)},
		{unix.RLIMIT_STACK, maxStack},
		{unix.RLIMIT_FSIZE, uint64(l.FileSize)},
		{unix.RLIMIT_NOFILE, maxOpenFiles},
		{unix.RLIMIT_MEMLOCK, 0},
		{unix.RLIMIT_MSGQUEUE, 0},
		{unix.RLIMIT_SIGPENDING, maxOpenFiles},
	}, nil
}

func setResourceLimits(all []resourceLimit) error {
	for _, r := range all {
		value := unix.Rlimit{Cur: r.value, Max: r.value}
		if err := unix.Prlimit(0, r.resource, &value, nil); err != nil {
			return fmt.Errorf("setting resource limit %d: %w", r.resource, err)
		}
	}
	return nil
}

// countTasks counts a user's processes and threads.
func countTasks(uid int) (uint64, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	var count uint64
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		text, _ := os.ReadFile("/proc/" + e.Name() + "/status") // it may have exited
		owner, threads := "", uint64(0)
		for line := range strings.Lines(string(text)) {
			switch name, value, _ := strings.Cut(line, ":"); name {
			case "Uid":
				owner, _, _ = strings.Cut(strings.TrimSpace(value), "\t")
			case "Threads":
				threads, _ = strconv.ParseUint(strings.TrimSpace(value), 10, 32)
			}
		}
		if owner == strconv.Itoa(uid) {
			count += threads
		}
	}
	return count, nil
}

// dropPrivileges removes all the calling thread's capabilities. As root, it also changes to an
// unprivileged user: the process limit does not apply to root.
func dropPrivileges(user int) error {
	if user == 0 && os.Getuid() == 0 {
		return fmt.Errorf("a sandbox of root requires another user")
	}
	if user != 0 {
		for _, call := range []struct{ number, a, b, c uintptr }{
			{unix.SYS_SETGROUPS, 0, 0, 0},
			{unix.SYS_SETRESGID, uintptr(user), uintptr(user), uintptr(user)},
			{unix.SYS_SETRESUID, uintptr(user), uintptr(user), uintptr(user)},
		} {
			// The functions in package syscall change all threads.
			if _, _, errno := unix.RawSyscall(call.number, call.a, call.b, call.c); errno != 0 {
				return fmt.Errorf("changing to user %d (run the host as a user other than root, or with CAP_SETUID and CAP_SETGID): %w", user, errno)
			}
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("dropping capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("dropping capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("setting no_new_privs: %w", err)
	}
	return nil
}
