package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// archCalls are denied calls of this architecture only.
func archCalls() []uintptr { return nil }

func archOwnerCalls() []uintptr { return nil }
