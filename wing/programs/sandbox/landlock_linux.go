//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Rights on files (landlock(7)).
const (
	fileRead  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE
	fileWrite = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	read      = fileRead | unix.LANDLOCK_ACCESS_FS_READ_DIR
	write     = fileWrite | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_REFER
	handled = read | write | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// Available returns why this machine cannot run a sandbox, or nil.
func Available() error {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		version = 0
	}
	return checkVersion(int(version))
}

// listDevices returns the devices that every program may use, with the rights to them. A
// writable /dev/zero would be shared memory without a file.
func listDevices() map[string]uint64 {
	const both = fileRead | fileWrite
	return map[string]uint64{"/dev/null": both, "/dev/zero": fileRead, "/dev/full": both, "/dev/random": both, "/dev/urandom": both}
}

// A ruleset is an open Landlock ruleset.
type ruleset int

// openRuleset builds a program's rules: its own file, the devices, and the limits' paths. No rule
// allows TCP, signals to other processes, or abstract sockets.
func openRuleset(program string, l *Limits) (ruleset, error) {
	if err := Available(); err != nil {
		return -1, err
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: handled, Scoped: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL}
	if !l.Network {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	size := unsafe.Offsetof(attr.Scoped) + unsafe.Sizeof(attr.Scoped)
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return -1, fmt.Errorf("creating a Landlock ruleset: %w", errno)
	}
	rules := ruleset(fd)
	err := rules.allowPath(program, read)
	for path, access := range listDevices() {
		if missing := rules.allowPath(path, access); !errors.Is(missing, os.ErrNotExist) {
			err = errors.Join(err, missing)
		}
	}
	for _, path := range l.Read {
		err = errors.Join(err, rules.allowPath(path, read))
	}
	for _, path := range l.Write {
		err = errors.Join(err, rules.allowPath(path, read|write))
	}
	return rules, err
}

// allowPath allows access to a file, or to a folder with all below it.
func (r ruleset) allowPath(path string, access uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var info unix.Stat_t
	if err := unix.Fstat(fd, &info); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if info.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= fileRead | fileWrite
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(r), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0, 0, 0); errno != 0 {
		return &os.PathError{Op: "landlock", Path: path, Err: errno}
	}
	return nil
}

// restrictSelf applies the rules to the calling thread.
func (r ruleset) restrictSelf() error {
	if _, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(r), 0, 0); errno != 0 {
		return fmt.Errorf("applying Landlock: %w", errno)
	}
	return unix.Close(int(r))
}
