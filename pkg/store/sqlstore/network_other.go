//go:build !linux

package sqlstore

import "syscall"

// limitUnacknowledged does nothing: the system's own limit applies.
func limitUnacknowledged(string, string, syscall.RawConn) error { return nil }
