//go:build !linux || !(amd64 || arm64)

package sandbox

import "context"

// Available returns [ErrUnsupported].
func Available() error { return ErrUnsupported }

// RunProgram returns [ErrUnsupported].
func RunProgram(context.Context, []string, *Program) (*Result, error) { return nil, ErrUnsupported }

// ServeHelper does nothing.
func ServeHelper([]string) {}

// Groups are control groups, which only Linux has.
type Groups struct{}

// OpenGroups returns [ErrUnsupported].
func OpenGroups() (*Groups, error) { return nil, ErrUnsupported }

// NewGroup returns [ErrUnsupported].
func (*Groups) NewGroup(*Limits) (string, func(), error) { return "", nil, ErrUnsupported }
