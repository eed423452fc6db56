package tool

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
