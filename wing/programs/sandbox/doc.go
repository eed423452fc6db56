// Package sandbox runs programs with bounds: limited output, no inherited descriptors, a
// clean environment, and a process tree that ends with the call. With [Limits], the kernel
// restricts the program as well: files by Landlock, the network, dangerous system calls and
// those that hold memory in the kernel by seccomp, data, processes and file sizes by resource
// limits. A control group limits the memory of all processes; without one, the helper measures it.
//
// A process cannot restrict a program without restricting itself, so the host starts
// itself again as a helper (see [ServeHelper]). The helper supervises the program: it is
// the subreaper of all processes that the program starts, and kills them when the program
// has exited, when a limit is exceeded, or when the host closes its pipe or dies. A second
// helper restricts itself and then executes the program.
package sandbox

import (
	"errors"
	"fmt"
)

// A Program is a program to run.
type Program struct {
	// Path is the absolute path of the executable.
	Path string
	// Args are the program's name and its arguments.
	Args []string
	// Env is the complete environment, as NAME=value.
	Env []string
	// Dir is the working directory.
	Dir string
	// Stdin is the whole input; the program reads the end of file after it.
	Stdin []byte `json:"-"`
	// MaxOutput limits stdout and stderr, in bytes each. The excess is read and dropped.
	MaxOutput int
	// Limits are nil for a program with the permissions of the host.
	Limits *Limits
}

// Limits restrict a program and everything that it starts.
type Limits struct {
	// Network allows IPv4 and IPv6 sockets; without it there are no sockets at all.
	Network bool
	// Read are absolute paths that may be read and executed, with all below them. Write
	// are those that may also be changed.
	Read, Write []string
	// Memory limits the data of each process, and of all processes together, in bytes.
	Memory int64
	// Processes limits processes and threads.
	Processes int
	// FileSize limits each written file, in bytes.
	FileSize int64
	// Group is the folder of the program's control group, from [Groups.NewGroup]. If it is
	// empty, the helper measures the memory of all processes.
	Group string
	// User is the user ID of the program if the host runs as root, else 0: root cannot
	// be limited in its number of processes.
	User int
}

// A Result is the result of a program.
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

// ErrUnsupported is the error of platforms without the sandbox.
var ErrUnsupported = errors.New("running programs requires Linux on amd64 or arm64")

// MinLandlock is the Landlock version that a sandbox requires: the first that restricts
// signals and abstract sockets (Linux 6.12).
const MinLandlock = 6

// checkVersion returns why a kernel with this version of Landlock cannot run a sandbox, or nil.
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
