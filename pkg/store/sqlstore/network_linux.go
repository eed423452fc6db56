package sqlstore

import (
	"strings"
	"syscall"
)

// tcpUserTimeout is TCP_USER_TIMEOUT from tcp(7).
const tcpUserTimeout = 18

// limitUnacknowledged limits how long sent bytes may stay unacknowledged.
func limitUnacknowledged(network, _ string, c syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var optErr error
	err := c.Control(func(fd uintptr) {
		optErr = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(deadPeerTimeout.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return optErr
}
