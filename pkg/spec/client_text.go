package spec

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ClientText returns an error's text for clients and models, which should not learn the host's
// directories: absolute paths to files, programs and sockets that err wraps are replaced by their
// last element, as by [Pos.Short]. An error that err wraps may replace its own text, by a method
// ClientText.
func ClientText(err error) string { return HidePaths(err.Error(), err) }

// HidePaths replaces err's absolute paths in a message that quotes it, and the texts of errors that
// have another one for clients.
func HidePaths(text string, err error) string {
	if public := publicError(nil); errors.As(err, &public) {
		text = strings.ReplaceAll(text, public.Error(), public.ClientText())
	}
	for _, path := range wrappedPaths(nil, err) {
		if filepath.IsAbs(path) {
			text = strings.ReplaceAll(text, path, filepath.Base(path))
		}
	}
	return text
}

// A publicError is an error whose text is for the log, and which has another one for
// clients.
type publicError interface {
	error
	ClientText() string
}

// The two ways to wrap errors.
type (
	wrappingError interface{ Unwrap() error }
	joinedError   interface{ Unwrap() []error }
)

var _ wrappingError = (*fs.PathError)(nil)

// wrappedPaths appends the paths in err's tree.
func wrappedPaths(paths []string, err error) []string {
	switch e := any(err).(type) { // this function walks the tree itself
	case *fs.PathError:
		paths = append(paths, e.Path)
	case *os.LinkError:
		paths = append(paths, e.Old, e.New)
	case *exec.Error:
		paths = append(paths, e.Name)
	case *net.OpError:
		if socket, ok := e.Addr.(*net.UnixAddr); ok {
			paths = append(paths, socket.Name)
		}
	}
	switch e := any(err).(type) { // this function walks the tree itself
	case wrappingError:
		return wrappedPaths(paths, e.Unwrap())
	case joinedError:
		for _, inner := range e.Unwrap() {
			paths = wrappedPaths(paths, inner)
		}
	}
	return paths
}
