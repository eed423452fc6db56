package connection

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestParseChallenge reads the Bearer challenge among others, in any of the forms of RFC 9110. What
// is not as there, or too large, is left out.
func TestParseChallenge(t *testing.T) {
	const bearer = `Bearer error="insufficient_scope", scope="b a", resource_metadata="https://x/y"`
	full := Challenge{403, "insufficient_scope", "https://x/y", []string{"a", "b"}}
	for _, tt := range []struct {
		headers []string
		want    Challenge
		ok      bool
	}{
		{[]string{bearer}, full, true},
		{[]string{"Basic realm=\"a, Bearer error=x\"", bearer}, full, true},
		{[]string{"Basic realm=\"a\", " + bearer + ", Digest nonce=1"}, full, true},
		{[]string{strings.ToLower(bearer)}, full, true},
		{[]string{"Bearer"}, Challenge{Status: 403}, true},
		{[]string{`Bearer realm="a\"b", error=invalid_token`}, Challenge{Status: 403, Error: "invalid_token"}, true},
		{[]string{`Bearer error = "a" , error="b"`}, Challenge{Status: 403, Error: "a"}, true},
		{[]string{`Bearer error="a`}, Challenge{Status: 403}, true},
		{[]string{`Bearer abc123==, error="a"`}, Challenge{Status: 403, Error: "a"}, true},
		{[]string{"Bearer scope=\"" + strings.Repeat("x ", maxScopes+1) + `"`}, Challenge{Status: 403}, true},
		{[]string{"Bearer realm=\"" + strings.Repeat("x", maxChallenge) + `"`}, Challenge{}, false},
		{[]string{"", ",,", "=", `"`, "Basic"}, Challenge{}, false},
		{nil, Challenge{}, false},
	} {
		got, ok := ParseChallenge(&http.Response{StatusCode: 403, Header: http.Header{"Www-Authenticate": tt.headers}})
		if diff := cmp.Diff(tt.want, got); diff != "" || ok != tt.ok {
			t.Errorf("%.200q: %v (-want +got):\n%s", tt.headers, ok, diff)
		}
	}
}

// FuzzParseChallenge: no header makes the parser panic or loop.
func FuzzParseChallenge(f *testing.F) {
	f.Add(`Basic realm="a", Bearer error="x\"", scope=a`)
	f.Fuzz(func(_ *testing.T, header string) {
		ParseChallenge(&http.Response{Header: http.Header{"Www-Authenticate": {header}}})
	})
}
