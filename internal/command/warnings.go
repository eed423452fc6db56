package command

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// NewWarningLogger returns a logger that prints a host's warnings and errors to a person, one a
// line: the message, its error, and other facts.
func NewWarningLogger(out io.Writer) *slog.Logger { return slog.New(warningPrinter{out, nil}) }

// A warningPrinter is [NewWarningLogger]'s handler.
type warningPrinter struct {
	out   io.Writer
	attrs []slog.Attr
}

// Enabled reports whether a level is a warning or an error.
func (w warningPrinter) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}

// Handle prints a record.
func (w warningPrinter) Handle(_ context.Context, r slog.Record) error {
	if isPrintedByRun(r.Message) {
		return nil
	}
	failure, facts := "", ""
	add := func(a slog.Attr) bool {
		switch value := quoteControls(a.Value.String()); {
		case isRunAttr(a.Key):
		case a.Key == "error":
			failure = ": " + value
		default:
			facts += " " + a.Key + "=" + value
		}
		return true
	}
	for _, a := range w.attrs {
		add(a)
	}
	r.Attrs(add)
	_, err := fmt.Fprintf(w.out, "%s: %s%s%s\n", nameLevel(r.Level), r.Message, failure, facts)
	return err
}

// WithAttrs returns a handler that adds attributes to each record.
func (w warningPrinter) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warningPrinter{w.out, slices.Concat(w.attrs, attrs)}
}

// WithGroup returns the handler itself: a line has no groups.
func (w warningPrinter) WithGroup(string) slog.Handler { return w }

func nameLevel(level slog.Level) string {
	if level >= slog.LevelError {
		return "error"
	}
	return "warning"
}

// isPrintedByRun reports whether the run prints a record's fact itself: a model failure, and the
// wait before the next attempt.
func isPrintedByRun(message string) bool {
	return message == "model call failed" || message == "model call failed, retrying"
}

// isRunAttr reports whether an attribute identifies the run, which the person has named.
func isRunAttr(key string) bool {
	return slices.Contains([]string{"app", "revision", "session", "invocation"}, key)
}

// quoteControls quotes text with line feeds or other control characters, so that it cannot
// control the terminal.
func quoteControls(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}
