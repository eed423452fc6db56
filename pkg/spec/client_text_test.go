package spec_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agenthost/pkg/spec"
)

// A logError has another text for clients.
type logError struct{ err error }

func (e *logError) Error() string { return "disk failed: " + e.err.Error() }

func (*logError) ClientText() string { return "disk failed" }

// An error's text for clients has no host directories, however the error is wrapped. Other paths,
// such as the app's, stay.
func TestClientText(t *testing.T) {
	dir := t.TempDir()
	file, other := filepath.Join(dir, "key.pem"), filepath.Join(dir, "new.pem")
	_, missing := os.Open(file)
	_, socket := new(net.Dialer).DialContext(context.Background(), "unix", filepath.Join(dir, "db.sock"))
	_, program := exec.LookPath(filepath.Join(dir, "tool"))
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"file":     {missing, "open key.pem: no such file or directory"},
		"wrapped":  {fmt.Errorf("tool x: %w", missing), "tool x: open key.pem: no such file or directory"},
		"joined":   {errors.Join(errors.New("first"), fmt.Errorf("then %w", missing)), "first\nthen open key.pem: no such file or directory"},
		"rename":   {os.Rename(file, other), "rename key.pem new.pem: no such file or directory"},
		"program":  {program, `exec: "tool": stat tool: no such file or directory`},
		"start":    {exec.CommandContext(t.Context(), file).Run(), "fork/exec key.pem: no such file or directory"},
		"socket":   {socket, "dial unix db.sock: connect: no such file or directory"},
		"relative": {&os.PathError{Op: "open", Path: "docs/a.md", Err: os.ErrNotExist}, "open docs/a.md: file does not exist"},
		"public":   {fmt.Errorf("saving %s: %w", "a.md", &logError{missing}), "saving a.md: disk failed"},
		"none":     {errors.New("open /etc/x"), "open /etc/x"},
	} {
		if got := spec.ClientText(tt.err); got != tt.want || strings.Contains(got, dir) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
