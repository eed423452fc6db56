package operator

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Limits on the kept log entries: together at most about 400 KiB.
const (
	maxEntries = 100
	maxValue   = 500
	maxText    = 4000
	maxAttrs   = 40
)

// A LogEntry is a warning or an error in the log.
type LogEntry struct {
	Time    time.Time `json:"time"`
	Level   string    `json:"level"`
	Message string    `json:"message"`
	// Attrs are KEY=VALUE, with secrets redacted and long values cut.
	Attrs []string `json:"attrs,omitempty"`
}

// A LogRing keeps the last warnings and errors of a log in memory. It is safe for concurrent use.
type LogRing struct {
	mu      sync.Mutex
	entries []LogEntry
	next    int
	total   int64
}

// WrapHandler returns a handler that also keeps warnings and errors.
func (l *LogRing) WrapHandler(h slog.Handler) slog.Handler { return &ringHandler{Handler: h, ring: l} }

// Entries returns the kept entries, newest first, and how many there were since the start.
func (l *LogRing) Entries() (entries []LogEntry, total int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.entries {
		at := (l.next - 1 - i + 2*len(l.entries)) % len(l.entries)
		entries = append(entries, l.entries[at])
	}
	return entries, l.total
}

func (l *LogRing) addEntry(e LogEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total++
	if len(l.entries) < maxEntries {
		l.entries = append(l.entries, e)
		l.next = len(l.entries) % maxEntries
		return
	}
	l.entries[l.next] = e
	l.next = (l.next + 1) % maxEntries
}

// A ringHandler passes records on, and keeps those that are warnings or errors.
type ringHandler struct {
	slog.Handler
	ring  *LogRing
	attrs []string
	group string
}

// Enabled implements [slog.Handler]. Warnings are kept even if the log has only errors.
func (h *ringHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn || h.Handler.Enabled(ctx, level)
}

// Handle implements [slog.Handler].
func (h *ringHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		e := LogEntry{Time: r.Time, Level: r.Level.String(), Message: redactText(r.Message, maxText), Attrs: slices.Clone(h.attrs)}
		r.Attrs(func(a slog.Attr) bool {
			e.Attrs = appendAttr(e.Attrs, h.group, a)
			return len(e.Attrs) < maxAttrs && sumLengths(e.Attrs) <= maxText
		})
		rest := maxText
		for i, text := range e.Attrs {
			if rest -= len(text); rest < 0 {
				e.Attrs = append(e.Attrs[:i], "…")
				break
			}
		}
		h.ring.addEntry(e)
	}
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h *ringHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	next.Handler, next.attrs = h.Handler.WithAttrs(attrs), slices.Clone(h.attrs)
	for _, a := range attrs {
		next.attrs = appendAttr(next.attrs, h.group, a)
	}
	return &next
}

// WithGroup implements [slog.Handler].
func (h *ringHandler) WithGroup(name string) slog.Handler {
	next := *h
	next.Handler = h.Handler.WithGroup(name)
	if name != "" {
		next.group += name + "."
	}
	return &next
}

// appendAttr appends an attribute, and the members of a group.
func appendAttr(all []string, prefix string, a slog.Attr) []string {
	v := a.Value.Resolve()
	switch {
	case len(all) >= maxAttrs:
		return all
	case v.Kind() == slog.KindGroup:
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, member := range v.Group() {
			all = appendAttr(all, prefix, member)
		}
		return all
	case a.Equal(slog.Attr{}):
		return all
	case secretKey.MatchString(a.Key):
		return append(all, prefix+cutText(a.Key, maxValue)+"=***")
	}
	return append(all, prefix+cutText(a.Key, maxValue)+"="+redactText(fmt.Sprint(v.Any()), maxValue))
}

var (
	// secretKey matches attribute keys whose values are not kept.
	secretKey = regexp.MustCompile(`(?i)pass(word|wd)|secret|token$|authorization|credential|api_?key|cookie`)
	// secretTexts match credentials in texts: in URLs, in headers, and as parameters. Texts without any
	// of the signs, in lower case, have no match: looking for signs costs far less than the pattern.
	secretTexts = []struct {
		signs   []string
		pattern *regexp.Regexp
		to      string
	}{
		{[]string{"://"}, regexp.MustCompile(`(://)[^/@\s]+@`), "$1***@"},
		{[]string{"bearer", "basic"}, regexp.MustCompile(`(?i)\b(bearer|basic)\s+[\w.~+/=-]+`), "$1 ***"},
		{[]string{"pass", "secret", "token", "key", "authorization"}, regexp.MustCompile(`(?i)\b(password|passwd|secret|token|api_?key|access_token|key|authorization)(["']?\s*[=:]\s*["']?)[^\s"'&,;]+`), "$1$2***"},
		{[]string{"sk", "pk", "ghp", "gho", "xox", "aiza", "eyj"}, regexp.MustCompile(`\b(sk|pk|ghp|gho|xox[a-z])[-_][\w-]{12,}|\bAIza[\w-]{20,}|\beyJ[\w-]+\.[\w-]+\.[\w-]*`), "***"},
	}
)

// redactText replaces credentials by pattern, and returns at most limit bytes.
func redactText(text string, limit int) string {
	text = cutText(text, 2*limit) // before the patterns, whose cost grows with it
	for _, s := range secretTexts {
		lower := strings.ToLower(text)
		if !slices.ContainsFunc(s.signs, func(sign string) bool { return strings.Contains(lower, sign) }) {
			continue
		}
		text = s.pattern.ReplaceAllString(text, s.to)
	}
	return cutText(text, limit)
}

func sumLengths(texts []string) (n int) {
	for _, text := range texts {
		n += len(text)
	}
	return n
}

// cutText returns at most limit bytes of a valid text, with an ellipsis.
func cutText(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + "…"
}
