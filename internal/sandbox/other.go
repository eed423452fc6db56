//go:build !linux || !(amd64 || arm64)

package sandbox

import "context"

// Available returns [ErrUnsupported].
func Available() error { return ErrUnsupported }

// RunProgram returns [ErrUnsupported].
func RunProgram(context.Context, []string, *Program) (*Result, error) { return nil, ErrUnsupported }

// ServeHelper does nothing.
func ServeHelper([]string) {}
