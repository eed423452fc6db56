package template

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func orderVariables() map[string]any {
	return map[string]any{
		"args":      map[string]any{"order_id": "a/b c", "n": int64(7), "none": nil, "tags": []any{"x", "y"}},
		"user":      "Ann {args.n}",
		"user:name": "Ann",
		"état":      "bon",
	}
}

func lookupInOrder(path string) (any, bool) {
	if v, ok := orderVariables()[path]; ok {
		return v, true
	}
	return Dig(orderVariables(), path)
}

func TestPathsRender(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"path", "/orders/{args.n}", "/orders/7"},
		{"name alone", "{user}", "Ann {args.n}"},
		{"prefix", "{user:name} {user:age?}.", "Ann ."},
		{"list", "{args.tags.1}", "y"},
		{"whole list", "{args.tags}", `["x","y"]`},
		{"optional", "[{args.x?}{args.none?}{x.y.z?}]", "[]"},
		{"unicode", "{état}", "bon"},
		{"inside JSON", `{"id": {args.n}, "o": {"k": {args.n}}}`, `{"id": 7, "o": {"k": 7}}`},
		{"two braces", "{{args.n}}", "{7}"},
		{"blanks", "{ args.n } { login }", "{ args.n } { login }"},
		{"JSON", `{"a": 1} {} {a:1} {1} {a-b} {a,b}`, `{"a": 1} {} {a:1} {1} {a-b} {a,b}`},
		{"literal", "{!args.n} {!!x} {!user:name?}", "{args.n} {!x} {user:name?}"},
		{"exclamation before other text", "{!a-b}", "{!a-b}"},
		{"open", "{args.n", "{args.n"},
		{"close", "a}b{", "a}b{"},
		{"empty", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := ParsePaths(tt.text)
			if err != nil {
				t.Fatal(err)
			}
			got, err := p.Render(lookupInOrder, nil)
			if err != nil || got != tt.want {
				t.Errorf("Render(%q) = %q, %v, want %q", tt.text, got, err, tt.want)
			}
		})
	}
}

func TestPathsEscape(t *testing.T) {
	p, err := ParsePaths("/a b/{args.order_id}/{args.n}?x={args.x?}")
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.Render(lookupInOrder, url.PathEscape)
	if want := "/a b/a%2Fb%20c/7?x="; err != nil || got != want {
		t.Errorf("Render = %q, %v, want %q", got, err, want)
	}
}

func TestPathsErrors(t *testing.T) {
	tests := []struct {
		name, text, want string
		offset           int
	}{
		{"last name", "/x/{args.}", "{args.}: missing name before or after a dot", 3},
		{"middle name", "{a..b?}", "{a..b?}: missing name before or after a dot", 0},
		{"after a prefix", "é{user:a.}", "{user:a.}: missing name before or after a dot", 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParsePaths(tt.text)
			var e *Error
			if !errors.As(err, &e) || e.Msg != tt.want || e.Offset != tt.offset {
				t.Errorf("ParsePaths(%q) = %#v, want %q at %d", tt.text, err, tt.want, tt.offset)
			}
		})
	}
}

func TestPathsMissing(t *testing.T) {
	p, err := ParsePaths("{args.n} {args.order}")
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Render(lookupInOrder, nil)
	var missing *MissingError
	if !errors.As(err, &missing) || err.Error() != "Context variable not found: `args.order`." {
		t.Errorf("Render = %v, want a MissingError for args.order", err)
	}
	want := Ref{Name: "args.order", Offset: 9}
	if diff := cmp.Diff(want, missing.Ref); diff != "" {
		t.Errorf("Ref (-want +got):\n%s", diff)
	}
}

func TestDigMapsAndLists(t *testing.T) {
	tests := []struct {
		path string
		want any
		ok   bool
	}{
		{"args.n", int64(7), true},
		{"args.tags.0", "x", true},
		{"user", "Ann {args.n}", true},
		{"args.none", nil, false},
		{"args.tags.2", nil, false},
		{"args.tags.-1", nil, false},
		{"args.tags.x", nil, false},
		{"user.x", nil, false},
		{"x", nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			got, ok := Dig(orderVariables(), tt.path)
			if diff := cmp.Diff(tt.want, got); diff != "" || ok != tt.ok {
				t.Errorf("Dig(%q) = %v, %v, want %v, %v", tt.path, got, ok, tt.want, tt.ok)
			}
		})
	}
}

// FuzzPaths checks that literal text is unchanged.
func FuzzPaths(f *testing.F) {
	for _, seed := range []string{`{"a": {args.b}}`, "{!a} {b?} {user:c.d.0}", "{a.}{{}}", "{é}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, src string) {
		p, err := ParsePaths(src)
		if err != nil {
			return
		}
		back := func(path string) (any, bool) { return "{" + path + "}", true }
		got, err := p.Render(back, nil)
		want := src
		for _, ref := range slices.Backward(p.Refs()) {
			if mark := ref.Offset + len("{"+ref.Name); ref.Optional {
				want = want[:mark] + want[mark+len("?"):]
			}
		}
		if !strings.Contains(src, "!") && (err != nil || got != want) {
			t.Errorf("Render(%q) = %q, %v, want %q", src, got, err, want)
		}
	})
}
