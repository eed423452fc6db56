//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Filter instructions (linux/bpf_common.h) and offsets in seccomp_data.
const (
	opLoad    = 0x20 // BPF_LD | BPF_W | BPF_ABS
	opAnd     = 0x54 // BPF_ALU | BPF_AND | BPF_K
	opEqual   = 0x15 // BPF_JMP | BPF_JEQ | BPF_K
	opAtLeast = 0x35 // BPF_JMP | BPF_JGE | BPF_K
	opAny     = 0x45 // BPF_JMP | BPF_JSET | BPF_K
	opReturn  = 0x06 // BPF_RET | BPF_K

	atNumber, atArch = 0, 4
	// The arguments' low halves: both architectures are little-endian.
	atFirst, atSecond, atSecondHigh, atThird, atFourth = 16, 24, 28, 32, 40

	allowCall   = unix.SECCOMP_RET_ALLOW
	denyCall    = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	missesCall  = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	invalidCall = unix.SECCOMP_RET_ERRNO | uint32(unix.EINVAL)
	noFeature   = unix.SECCOMP_RET_ERRNO | uint32(unix.EOPNOTSUPP)
	killCaller  = unix.SECCOMP_RET_KILL_PROCESS

	// x32Bit marks another ABI's system calls on amd64.
	x32Bit = 0x40000000
	// socketType masks a socket's type without its flags.
	socketType = 0xf
	// newNamespaces are clone's flags for new namespaces.
	newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
)

// deniedCalls are the calls that reach other processes, change the machine, or have been used to
// escape sandboxes: a program that computes needs none. Calls on paths that Landlock does not
// restrict are in ownerCalls.
func deniedCalls() []uintptr {
	return append(archCalls(), []uintptr{
		// the user's other processes
		unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP, unix.SYS_PROCESS_MADVISE, unix.SYS_PIDFD_GETFD,
		unix.SYS_SETPRIORITY, unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR, unix.SYS_IOPRIO_SET,
		unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES,
		// what they share: calls with a number work without the calls that return it
		unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMCTL, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP,
		unix.SYS_MSGGET, unix.SYS_MSGCTL, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
		// memory that no limit counts
		unix.SYS_MEMFD_CREATE, unix.SYS_MEMFD_SECRET,
		// system calls without a filter
		unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
		// file names elsewhere
		unix.SYS_INOTIFY_INIT1, unix.SYS_FANOTIFY_INIT, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT,
		// namespaces, file systems, the kernel
		unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE,
		unix.SYS_FSOPEN, unix.SYS_FSMOUNT, unix.SYS_FSCONFIG, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_QUOTACTL, unix.SYS_SWAPON, unix.SYS_SWAPOFF,
		unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
		unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
		unix.SYS_REBOOT, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX, unix.SYS_ACCT, unix.SYS_SYSLOG,
		unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_VHANGUP,
	}...)
}

// heldMemoryCalls are calls whose memory belongs to the kernel: no process limit counts it, and it
// stays when the process unmaps, closes or truncates what it comes from. Each has the error after
// which programs do without it.
func heldMemoryCalls() map[uint32][]uintptr {
	return map[uint32][]uintptr{
		// Pages in a pipe or a socket keep their whole large page or file.
		invalidCall: {unix.SYS_SPLICE, unix.SYS_VMSPLICE, unix.SYS_TEE, unix.SYS_SENDFILE},
		// Event rings, and rules.
		missesCall: {unix.SYS_IO_SETUP, unix.SYS_LANDLOCK_CREATE_RULESET},
		// Attributes are not part of a file's size.
		noFeature: {unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_SETXATTRAT},
	}
}

// ownerCalls change file attributes by path, which Landlock does not restrict. They are denied if
// the program runs as the host's user.
func ownerCalls() []uintptr {
	return append(archOwnerCalls(), unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWNAT,
		unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_REMOVEXATTRAT, unix.SYS_FILE_SETATTR)
}

// A filter is a seccomp program.
type filter []unix.SockFilter

func (f *filter) addInstruction(code uint16, k uint32, yes, no uint8) {
	*f = append(*f, unix.SockFilter{Code: code, K: k, Jt: yes, Jf: no})
}

// denyNumber returns a result for a call.
func (f *filter) denyNumber(number uintptr, result uint32) {
	f.addInstruction(opEqual, uint32(number), 0, 1)
	f.addInstruction(opReturn, result, 0, 0)
}

// denyWhen denies a call if a test on an argument's low half is true.
func (f *filter) denyWhen(number uintptr, at uint32, test uint16, k uint32) {
	f.addInstruction(opEqual, uint32(number), 0, 4)
	f.addInstruction(opLoad, at, 0, 0)
	f.addInstruction(test, k, 0, 1)
	f.addInstruction(opReturn, denyCall, 0, 0)
	f.addInstruction(opReturn, allowCall, 0, 0)
}

// denyUnless denies a call unless an argument's low half equals one of the values, at most five. If
// it does, the rules below decide.
func (f *filter) denyUnless(number uintptr, at uint32, allowed ...uint32) {
	f.addInstruction(opEqual, uint32(number), 0, uint8(len(allowed)+3))
	f.addInstruction(opLoad, at, 0, 0)
	for i, value := range allowed {
		f.addInstruction(opEqual, value, uint8(len(allowed)-i), 0)
	}
	f.addInstruction(opReturn, denyCall, 0, 0)
	f.addInstruction(opLoad, atNumber, 0, 0)
}

// returnWhen returns a result for a call if an argument's low half equals one of the values. If it
// does not, the rules below decide.
func (f *filter) returnWhen(number uintptr, at, result uint32, values ...uint32) {
	f.addInstruction(opEqual, uint32(number), 0, uint8(len(values)+3))
	f.addInstruction(opLoad, at, 0, 0)
	for i, value := range values {
		last := uint8(0)
		if i == len(values)-1 {
			last = 1
		}
		f.addInstruction(opEqual, value, uint8(len(values)-1-i), last)
	}
	f.addInstruction(opReturn, result, 0, 0)
	f.addInstruction(opLoad, atNumber, 0, 0)
}

// denyHeldMemory denies what makes the kernel hold memory that [measureMemory] cannot count, or not
// in time: shared memory without a file, stack and large-page mappings, which the data limit does
// not count, and buffers above the default size.
func (f *filter) denyHeldMemory(network bool) {
	for result, numbers := range heldMemoryCalls() {
		for _, number := range numbers {
			f.denyNumber(number, result)
		}
	}
	if !network {
		f.denyNumber(unix.SYS_SENDMSG, denyCall) // a descriptor in a message is in no table
		f.denyNumber(unix.SYS_SENDMMSG, denyCall)
	}
	const shared = unix.MAP_SHARED | unix.MAP_ANONYMOUS
	f.addInstruction(opEqual, uint32(unix.SYS_MMAP), 0, 6)
	f.addInstruction(opLoad, atFourth, 0, 0)
	f.addInstruction(opAny, unix.MAP_GROWSDOWN|unix.MAP_HUGETLB, 2, 0)
	f.addInstruction(opAnd, shared, 0, 0)
	f.addInstruction(opEqual, shared, 0, 1)
	f.addInstruction(opReturn, denyCall, 0, 0)
	f.addInstruction(opReturn, allowCall, 0, 0)
	f.returnWhen(unix.SYS_FCNTL, atSecond, denyCall, unix.F_SETPIPE_SZ)
	f.returnWhen(unix.SYS_FCNTL, atSecond, invalidCall, unix.F_OFD_SETLK, unix.F_OFD_SETLKW) // such locks have no process
	f.addInstruction(opEqual, uint32(unix.SYS_SETSOCKOPT), 0, 4)
	f.addInstruction(opLoad, atSecond, 0, 0)
	f.addInstruction(opEqual, unix.SOL_SOCKET, 1, 0)
	f.addInstruction(opReturn, allowCall, 0, 0)
	f.addInstruction(opLoad, atNumber, 0, 0)
	f.returnWhen(unix.SYS_SETSOCKOPT, atThird, denyCall, unix.SO_SNDBUF, unix.SO_RCVBUF, unix.SO_SNDBUFFORCE, unix.SO_RCVBUFFORCE,
		unix.SO_ATTACH_FILTER, unix.SO_ATTACH_BPF, unix.SO_ATTACH_REUSEPORT_CBPF, unix.SO_ATTACH_REUSEPORT_EBPF)
}

// denySocketPairs allows connected unix sockets only: a paired datagram socket can send to any
// other one by its path, which Landlock does not restrict.
func (f *filter) denySocketPairs() {
	f.addInstruction(opEqual, uint32(unix.SYS_SOCKETPAIR), 0, 8)
	f.addInstruction(opLoad, atFirst, 0, 0)
	f.addInstruction(opEqual, unix.AF_UNIX, 0, 4)
	f.addInstruction(opLoad, atSecond, 0, 0)
	f.addInstruction(opAnd, socketType, 0, 0)
	f.addInstruction(opEqual, unix.SOCK_STREAM, 2, 0)
	f.addInstruction(opEqual, unix.SOCK_SEQPACKET, 1, 0)
	f.addInstruction(opReturn, denyCall, 0, 0)
	f.addInstruction(opReturn, allowCall, 0, 0)
}

// buildFilter returns the filter. It kills a program that uses another system call ABI.
func buildFilter(network, asHost bool) filter {
	var f filter
	f.addInstruction(opLoad, atArch, 0, 0)
	f.addInstruction(opEqual, auditArch, 1, 0)
	f.addInstruction(opReturn, killCaller, 0, 0)
	f.addInstruction(opLoad, atNumber, 0, 0)
	f.addInstruction(opAtLeast, x32Bit, 0, 1)
	f.addInstruction(opReturn, killCaller, 0, 0)
	denied := deniedCalls()
	if asHost {
		denied = append(denied, ownerCalls()...)
	}
	if !network {
		denied = append(denied, unix.SYS_SOCKET)
	}
	for _, number := range denied {
		f.denyNumber(number, denyCall)
	}
	f.denyNumber(unix.SYS_CLONE3, missesCall) // its flags cannot be read here; C libraries use clone instead
	if network {
		f.denyUnless(unix.SYS_SOCKET, atFirst, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK)
		f.denyUnless(unix.SYS_SOCKET, atThird, 0, unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6)
	}
	f.denyHeldMemory(network)
	f.denySocketPairs()
	f.denyWhen(unix.SYS_CLONE, atFirst, opAny, newNamespaces)
	f.addInstruction(opEqual, uint32(unix.SYS_PRLIMIT64), 0, 4) // only the process itself
	f.addInstruction(opLoad, atFirst, 0, 0)
	f.addInstruction(opEqual, 0, 1, 0)
	f.addInstruction(opReturn, denyCall, 0, 0)
	f.addInstruction(opReturn, allowCall, 0, 0)
	if asHost {
		f.addInstruction(opEqual, uint32(unix.SYS_UTIMENSAT), 0, 5) // only an open file: without a path
		f.addInstruction(opLoad, atSecond, 0, 0)
		f.addInstruction(opEqual, 0, 0, 2)
		f.addInstruction(opLoad, atSecondHigh, 0, 0)
		f.addInstruction(opEqual, 0, 1, 0)
		f.addInstruction(opReturn, denyCall, 0, 0)
	}
	f.addInstruction(opReturn, allowCall, 0, 0)
	return f
}

// installFilter applies a filter to the calling thread.
func installFilter(f filter) error {
	prog := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	if _, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog))); errno != 0 {
		return fmt.Errorf("applying the system call filter: %w", errno)
	}
	return nil
}
