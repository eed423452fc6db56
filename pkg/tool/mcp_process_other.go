//go:build !linux

package tool

import "os/exec"

// ownGroup does nothing here: a program ends when its standard input does, or
// when it is killed alone.
func ownGroup(*exec.Cmd) {}

func endGroup(*exec.Cmd) {}
