package command

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// A warning is one line: the message, its error and the other facts, without the run that
// the person has named. Text with control characters is quoted, and what run prints itself is
// left out.
func TestWarningLogger(t *testing.T) {
	var out strings.Builder
	logger := NewWarningLogger(&out).With("app", "a", "session", "s", "invocation", "i", "agent", "clerk")
	logger.Info("app loaded")
	logger.Warn("compaction failed", "error", errors.New("the summarizer is down"))
	logger.Error("tool panicked", "panic", "\x1b[2J\nboom", "revision", "r")
	logger.Warn("model call failed", "error", errors.New("printed by run"))
	logger.WithGroup("g").Warn("mcp tool skipped", slog.String("tool", "look up"))
	want := `warning: compaction failed: the summarizer is down agent=clerk
error: tool panicked agent=clerk panic="\x1b[2J\nboom"
warning: mcp tool skipped agent=clerk tool=look up
`
	if out.String() != want {
		t.Errorf("printed %s, want %s", out.String(), want)
	}
}
