package store

import (
	"strings"
	"testing"
)

// A redacted URL keeps the location, without credentials and parameters.
func TestRedacted(t *testing.T) {
	for in, want := range map[string]string{
		"memory:":                                   "memory:",
		"sessions.db":                               "sessions.db",
		"sqlite:///a@b.db":                          "sqlite:///a@b.db",
		"sqlite:///x.db?key=secret":                 "sqlite:///x.db?…",
		"dir:///a@b":                                "dir:///a@b",
		"gs://bucket/prefix":                        "gs://bucket/prefix",
		"mysql://h/db":                              "mysql://h/db",
		"mysql://me@h/db":                           "mysql://***@h/db",
		"postgresql+asyncpg://me:secret@h/db":       "postgresql+asyncpg://***@h/db",
		"postgres://me:sec%zzret@h/db?sslmode=x":    "postgres://***@h/db?…",
		"postgres://me:se/cr?e@t@h/db":              "postgres://***@h/db",
		"postgres:///me:secret@h/db":                "postgres://***@h/db",
		"postgres:me:secret@h/db":                   "postgres:***@h/db",
		"sqlite://me:secret@h/x.db":                 "sqlite://***@h/x.db",
		"me:secret@h/db":                            "me:***@h/db",
		"postgres://h/db?password=secret":           "postgres://h/db?…",
		"postgres://h/db?user=a@b&password=secret@": "postgres://***@",
	} {
		got := Redacted(in)
		if got != want {
			t.Errorf("Redacted(%q) = %q, want %q", in, got, want)
		}
		if strings.Contains(got, "secret") {
			t.Errorf("Redacted(%q) shows the password", in)
		}
	}
}
