package session

import (
	"errors"
	"strings"
	"testing"
)

func TestCheckArtifactName(t *testing.T) {
	for _, name := range []string{
		"a", "a.txt", "reports/may.txt", "user:a.txt", "user:reports/may.txt", "..a", "a..", "a:b", "olá.txt", " ",
		strings.Repeat("a", 512),
	} {
		if err := CheckArtifactName(name); err != nil {
			t.Errorf("CheckArtifactName(%q): %v", name, err)
		}
	}
}

func TestCheckArtifactNameErrors(t *testing.T) {
	long := strings.Repeat("a", 513)
	tests := []struct {
		in, want string
	}{
		{"", `artifact name "" is empty: invalid`},
		{"user:", `artifact name "user:" is empty: invalid`},
		{long, `artifact name "` + long + `" exceeds the limit of 512 bytes: invalid`},
		{"/etc/passwd", `artifact name "/etc/passwd" must be relative: invalid`},
		{"user:/a", `artifact name "user:/a" must be relative: invalid`},
		{`a\b`, `artifact name "a\\b" contains a NUL byte or a backslash: invalid`},
		{"a\x00", `artifact name "a\x00" contains a NUL byte or a backslash: invalid`},
		{"../a", `artifact name "../a" contains an empty, . or .. element: invalid`},
		{"user:../a", `artifact name "user:../a" contains an empty, . or .. element: invalid`},
		{"a/../b", `artifact name "a/../b" contains an empty, . or .. element: invalid`},
		{"a/./b", `artifact name "a/./b" contains an empty, . or .. element: invalid`},
		{"a//b", `artifact name "a//b" contains an empty, . or .. element: invalid`},
		{"a/", `artifact name "a/" contains an empty, . or .. element: invalid`},
	}
	for _, tt := range tests {
		t.Run(tt.want, func(t *testing.T) {
			err := CheckArtifactName(tt.in)
			if err == nil || err.Error() != tt.want {
				t.Errorf("CheckArtifactName(%q): %v, want %s", tt.in, err, tt.want)
			}
			if !errors.Is(err, ErrInvalid) {
				t.Error("the error is not ErrInvalid")
			}
		})
	}
}
