package server

import (
	"net/http"
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

// A mistake in an extension's route ends the server's start, and the message names the route.
func TestIncompleteRoutes(t *testing.T) {
	handle := func(http.ResponseWriter, *http.Request) error { return nil }
	for want, routes := range map[string][]Route{
		`server: route "/x": Method is required`:                                                 {{Pattern: "/x", Handler: handle, Doc: Doc{ID: "x"}}},
		`server: route "GET x": Pattern must start with /`:                                       {{Method: "GET", Pattern: "x", Handler: handle, Doc: Doc{ID: "x"}}},
		`server: route "GET /x": Handler is required`:                                            {{Method: "GET", Pattern: "/x", Doc: Doc{ID: "x"}}},
		`server: route "GET /x": Doc.ID is required: generated clients name a function after it`: {{Method: "GET", Pattern: "/x", Handler: handle}},
		`server: route "GET /x": Doc.ID listApps is that of GET /list-apps`:                      {{Method: "GET", Pattern: "/x", Handler: handle, Doc: Doc{ID: "listApps"}}},
		`server: two routes have the pattern GET /version`:                                       {{Method: "GET", Pattern: "/version", Handler: handle, Doc: Doc{ID: "x"}}},
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("New panicked with %v, want %s", got, want)
				}
			}()
			New(nil, &Options{Extensions: []func(*Services) *Extension{func(*Services) *Extension { return &Extension{Routes: routes} }}})
		}()
	}
}

// A schema that a route's docs name must exist. An extension may be nil.
func TestMissingSchema(t *testing.T) {
	s := New(nil, &Options{Extensions: []func(*Services) *Extension{
		func(*Services) *Extension { return nil },
		func(*Services) *Extension {
			return &Extension{Routes: []Route{{
				Method: "GET", Pattern: "/x", Handler: func(http.ResponseWriter, *http.Request) error { return nil },
				Doc: Doc{ID: "x", Answer: "[AnyObjet]"},
			}}}
		},
	}})
	_, err := s.openAPI()
	if want := "the docs of the routes at /x name AnyObjet, which no component has"; err == nil || err.Error() != want {
		t.Errorf("the OpenAPI document: %v, want %s", err, want)
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
