package server

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDocListsEveryRoute(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var documented, routed []string
	for _, m := range regexp.MustCompile(`(?m)^//\t([A-Z]+) +(/\S+)`).FindAllSubmatch(doc, -1) {
		documented = append(documented, string(m[1])+" "+string(m[2]))
	}
	for _, rt := range New(nil, nil).allRoutes() {
		routed = append(routed, rt.listPatterns()...)
	}
	if diff := cmp.Diff(routed, documented); diff != "" {
		t.Errorf("routes (-table +doc.go):\n%s", diff)
	}
}

func TestForwardedHeader(t *testing.T) {
	for _, tc := range []struct{ header, want string }{
		{"", " "},
		{"proto=https;host=a.example", "https a.example"},
		{`for=1.2.3.4; Proto=https; Host="a.example:8443", proto=http;host=b.example`, "https a.example:8443"},
		{"host=a.example", " a.example"},
	} {
		proto, host := parseForwarded(tc.header)
		if got := strings.Join([]string{proto, host}, " "); got != tc.want {
			t.Errorf("parseForwarded(%q) = %q, want %q", tc.header, got, tc.want)
		}
	}
}
