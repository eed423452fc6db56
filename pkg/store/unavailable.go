package store

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"agenthost/pkg/session"
)

// An ArtifactsUnavailable is the error of an artifact store that cannot be used now: its
// disk is full, read-only or failing, or its service does not answer. It is a
// [session.ErrUnavailable]. Its text has the cause, for the log.
type ArtifactsUnavailable struct{ Err error }

// Error returns the text for the log.
func (e *ArtifactsUnavailable) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *ArtifactsUnavailable) Unwrap() error { return e.Err }

// Is matches [session.ErrUnavailable].
func (e *ArtifactsUnavailable) Is(target error) bool { return target == session.ErrUnavailable }

// ClientText returns the text for clients and models. It has the system's reason, such as "no space
// left on device", and neither host paths nor a service's answers.
func (e *ArtifactsUnavailable) ClientText() string {
	if errno := syscall.Errno(0); errors.As(e.Err, &errno) {
		return "artifact store unavailable: " + errno.Error()
	}
	return "artifact store unavailable"
}

// MarkFileError marks a file system error as [ArtifactsUnavailable], unless the name caused it or
// something does not exist.
func MarkFileError(err error) error {
	errno := syscall.Errno(0)
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrExist), errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, os.ErrClosed):
		return err
	case errors.As(err, &errno):
		return &ArtifactsUnavailable{err}
	}
	return err
}
