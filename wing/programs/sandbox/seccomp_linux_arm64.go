package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// archCalls are denied calls that only this architecture has.
func archCalls() []uintptr { return nil }

func archOwnerCalls() []uintptr { return nil }
