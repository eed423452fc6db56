package toolconfig

import (
	"errors"
	"fmt"
	"strings"
)

// CheckCommandLine checks the limits for arguments that a model chooses.
func CheckCommandLine(args []string) error {
	total := 0
	for i, arg := range args {
		total += len(arg)
		switch {
		case strings.ContainsRune(arg, 0):
			return fmt.Errorf("argument %d contains a null character", i)
		case len(arg) > MaxArg-1 || total > MaxCommandLine:
			return fmt.Errorf("argument %d exceeds the limit of %d bytes", i, MaxArg)
		}
	}
	return nil
}

// Errors for calls that can run no program.
var (
	// ErrOfflineProgram is the error in tests.
	ErrOfflineProgram = errors.New("tests run no programs; stub the tool")
	// ErrNoPrograms is the error on a host without a program runner.
	ErrNoPrograms = errors.New("this host runs no programs")
)

// Limits for a command line (execve(2): MAX_ARG_STRLEN, ARG_MAX).
const (
	MaxArg         = 128 << 10
	MaxCommandLine = 1 << 20
)

// MaxScriptSeconds limits script_timeout to a day.
const MaxScriptSeconds = 24 * 60 * 60
