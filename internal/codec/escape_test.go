package codec

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestEscapeFileNames(t *testing.T) {
	tests := []struct{ id, reserved, want string }{
		{"s-1_x.y", "", "s-1_x.y"},
		{"Alice", "", "+alice"},
		{"alice", "", "alice"},
		{"..", "", "%2e%2e"},
		{".hidden", "", "%2ehidden"},
		{"a.", "", "a%2e"},
		{"a/b", "", "a%2fb"},
		{"a b", "", "a%20b"},
		{"語", "", "%e8%aa%9e"},
		{"+%~", "", "%2b%25%7e"},
		{"user", "user", "%75ser"},
		{"users", "user", "users"},
		{"USER", "user", "+u+s+e+r"},
		{strings.Repeat("a", 180), "", strings.Repeat("a", 180)},
	}
	for _, tt := range tests {
		if got := EscapeFileName(tt.id, tt.reserved); got != tt.want {
			t.Errorf("escape(%q, %q) = %q, want %q", tt.id, tt.reserved, got, tt.want)
		}
	}
	long := EscapeFileName(strings.Repeat("a", 181), "")
	if len(long) != 90+1+64 || !strings.HasPrefix(long, strings.Repeat("a", 90)+"~") {
		t.Errorf("escape of a long id = %q", long)
	}
}

// userScope is the reserved folder name for a user's artifacts.
const userScope = "user"

func FuzzEscape(f *testing.F) {
	f.Add("Alice", "alice")
	f.Add("..", "%2e%2e")
	f.Add("user", "%75ser")
	f.Add(strings.Repeat("x", 300), strings.Repeat("x", 299)+"y")
	f.Fuzz(func(t *testing.T, a, b string) {
		if a == "" || b == "" {
			t.Skip()
		}
		x, y := EscapeFileName(a, userScope), EscapeFileName(b, userScope)
		if a != b && strings.EqualFold(x, y) {
			t.Errorf("escape(%q) = escape(%q) = %q", a, b, x)
		}
		if !filepath.IsLocal(x) || strings.ContainsAny(x, `/\:`) || x == "." || len(x) > 255 || x == userScope {
			t.Errorf("escape(%q) = %q", a, x)
		}
	})
}
