// Package sandbox runs programs with bounds: limited output, no inherited descriptors, a
// clean environment, and a process tree that ends with the call. With [Limits], the kernel
// restricts the program as well: files by Landlock, the network, dangerous system calls and
// those that hold memory in the kernel by seccomp, data, processes and file sizes by resource
// limits. A control group limits all processes' memory; without one, the helper measures it.
//
//	host ── orders ─▶ helper ── orders ─▶ second helper
//	     ◀─ report ──   │                   │ restricts itself, then execve
//	                    │                   ▼
//	                    └─ watches, kills ─ program ─▶ its processes
//
// Landlock, seccomp and resource limits apply to the process that sets them, and Go cannot run
// code between fork and exec. So the host starts its own binary as two helpers
// (see [ServeHelper]): one supervises and stays unrestricted, the other becomes the program.
// This needs neither root nor a container runtime.
//
// Invariants:
//   - No process outlives the call. The helper is the subreaper of everything that the program
//     starts, and kills it all when the program has exited, when a limit is exceeded, or when the
//     host closes the orders or dies.
//   - The program never runs with less than all its restrictions. Each step must take effect, or
//     the second helper reports the error and exits. It opens what it needs before the
//     rules forbid it.
//   - The program inherits stdin, stdout and stderr, and no other descriptor: both helpers mark
//     all others close-on-exec.
//   - Kernel memory that no limit counts is denied, or charged at its maximum (memory_linux.go);
//     paths that Landlock does not restrict are denied by seccomp (seccomp_linux.go).
//   - A program that writes too much does not block: the excess is read and dropped.
package sandbox

import (
	"errors"
	"fmt"
)

// A Program is a program to run.
type Program struct {
	// Path is the executable's absolute path.
	Path string
	// Args are the program's name and its arguments.
	Args []string
	// Env is the complete environment, as NAME=value.
	Env []string
	// Dir is the working directory.
	Dir string
	// Stdin is the whole input; the program reads end-of-file after it.
	Stdin []byte `json:"-"`
	// MaxOutput limits stdout and stderr, in bytes each. The excess is read and dropped.
	MaxOutput int
	// Limits are nil for a program with the host's permissions.
	Limits *Limits
}

// Limits restrict a program and everything that it starts.
type Limits struct {
	// Network allows IPv4 and IPv6 sockets; without it there are no sockets at all.
	Network bool
	// Read are absolute paths that may be read and executed, with all below them. Write
	// are those that may also be changed.
	Read, Write []string
	// Memory limits each process's data, and that of all processes together, in bytes.
	Memory int64
	// Processes limits processes and threads.
	Processes int
	// FileSize limits each written file, in bytes.
	FileSize int64
	// Group is the folder of the program's control group, from [Groups.NewGroup]. If it is empty,
	// the helper measures all processes' memory.
	Group string
	// User is the program's user ID if the host runs as root, else 0: root has no process limit.
	User int
}

// A Result is what a program returned.
type Result struct {
	Stdout, Stderr []byte
	// StdoutDropped and StderrDropped are the bytes beyond MaxOutput.
	StdoutDropped, StderrDropped int64
	// Exit is the exit code; 128 and the signal's number if a signal ended the program.
	Exit int
	// MemoryExceeded is set if the program was killed because all its processes together
	// exceeded the memory limit.
	MemoryExceeded bool
}

// ErrUnsupported is the error on platforms without the sandbox.
var ErrUnsupported = errors.New("running programs requires Linux on amd64 or arm64")

// MinLandlock is the Landlock version that a sandbox requires: the first that restricts
// signals and abstract sockets (Linux 6.12).
const MinLandlock = 6

// checkVersion returns why a kernel with this Landlock version cannot run a sandbox, or nil.
func checkVersion(version int) error {
	switch {
	case version <= 0:
		return errors.New("this kernel has no Landlock; a sandbox requires Linux 6.12 or later with Landlock enabled")
	case version < MinLandlock:
		return fmt.Errorf("this kernel has Landlock version %d; a sandbox requires version %d (Linux 6.12)", version, MinLandlock)
	}
	return nil
}

// HelperCommand is the hidden command that [ServeHelper] serves.
const HelperCommand = "__program"
