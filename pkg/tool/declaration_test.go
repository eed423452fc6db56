package tool

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCheckName(t *testing.T) {
	const rule = " must start with a letter or _, followed by letters, digits and _ . : -"
	tests := []struct{ name, in, want string }{
		{"plain", "get_order", ""},
		{"all that may be", "_a.b:c-9", ""},
		{"longest", strings.Repeat("a", 128), ""},
		{"empty", "", "tool name is required"},
		{"a digit first", "9a", `tool name "9a"` + rule},
		{"a blank", "a b", `tool name "a b"` + rule},
		{"an accent", "à", `tool name "à"` + rule},
		{"too long", strings.Repeat("a", 129), `tool name "` + strings.Repeat("a", 129) + `" exceeds the limit of 128 bytes`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, errorString(checkName(tt.in))); diff != "" {
				t.Errorf("checkName(%q) (-want +got):\n%s", tt.in, diff)
			}
		})
	}
}

func TestPendingNoteAlone(t *testing.T) {
	if got := WithPendingNote(""); got != pendingNote {
		t.Errorf("description = %q, want only the note", got)
	}
}

func TestDecodeJSON(t *testing.T) {
	tests := []struct {
		in   string
		want any
	}{
		{`9007199254740993`, int64(9007199254740993)},
		{`1.0`, 1.0},
		{`[1, {"a": -2}]`, []any{int64(1), map[string]any{"a": int64(-2)}}},
		{` null `, nil},
	}
	for _, tt := range tests {
		got, err := DecodeResult([]byte(tt.in))
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("decodeJSON(%s) = %v (-want +got):\n%s", tt.in, err, diff)
		}
	}
}
