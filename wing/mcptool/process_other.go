//go:build !linux

package mcptool

import "os/exec"

// setProcessGroup does nothing on this platform: a program exits when its
// standard input closes, or when it is killed by itself.
func setProcessGroup(*exec.Cmd) {}

func killProcessGroup(*exec.Cmd) {}
