package spec_test

import (
	"strings"
	"testing"

	"agenthost/pkg/spec"
)

// The word KEY is found in each style, at its own bytes.
func TestLocateByStyle(t *testing.T) {
	for _, tt := range []struct {
		name, src string
		exact     bool
	}{
		{"plain", "a: read {KEY} now\n", true},
		{"plain with other scripts", "a: é𝄞 {KEY}\n", true},
		{"plain over lines", "a: read\n  it  \n\n  {KEY} now\n", true},
		{"single quotes", "a: 'it''s {KEY}'\n", true},
		{"single quotes over lines", "a: 'it''s\n\n  a {KEY}'\n", true},
		{"double quotes", `a: "a\tb\u00e9\" {KEY}"` + "\n", true},
		{"double quotes over lines", "a: \"one\n  two \\\n  three\n  {KEY}\"\n", true},
		{"literal block", "a: |\n  one\n    two\n\n  {KEY}\n", true},
		{"literal block with CRLF", "a: |\r\n  one\r\n\r\n  {KEY}\r\n", true},
		{"folded block", "a: >-\n  one\n  two\n\n    three\n  {KEY} four\n", true},
		{"folded block, key at a line start", "a: >\n  one\n  KEY two\n", true},
		{"an anchor and a tag", "a: &x !!str {KEY}x\nb: KEY\n", true},
		{"a byte order mark", "\uFEFFa: KEY\n", true},
		{"JSON", `{"a": "x {KEY}"}`, true},
		{"an escape in the word", `a: "x {K\x45Y}"`, false},
		{"an indentation in the header", "a: |2\n   {KEY}\n", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n, ds := spec.Parse("x.yaml", []byte(tt.src))
			if len(ds) > 0 && tt.name != "an anchor and a tag" {
				t.Fatal(ds)
			}
			if tt.name == "an anchor and a tag" {
				n, _ = spec.Parse("x.yaml", []byte("a: &x !!str read KEY\n"))
				tt.src = "a: &x !!str read KEY\n"
			}
			text := n.Get("a").Text()
			from := strings.Index(text.Value, "KEY")
			r, exact := spec.NewLocator([]byte(tt.src)).Locate(text, from, from+3)
			if exact != tt.exact {
				t.Fatalf("Locate() = %v, %v, want exact %v", r, exact, tt.exact)
			}
			if exact && (tt.src[r.Start:r.End] != "KEY" || r.Start != strings.Index(tt.src, "KEY")) {
				t.Errorf("Locate() = %q at %d", tt.src[r.Start:r.End], r.Start)
			}
		})
	}
}

// A reference's value is not in the file, but text around it is, and so is a default.
func TestLocateAroundReferences(t *testing.T) {
	src := "a: x {KEY} ${env:A:-a KEY} {KEY}\n"
	at := []int{strings.Index(src, "KEY"), strings.Index(src, "KEY} {"), strings.LastIndex(src, "KEY")}
	for value, want := range map[string][]int{"long KEY": {at[0], -1, at[2]}, "": at} {
		n, _ := spec.Parse("x.yaml", []byte(src))
		spec.Interpolate(n, func(string, string) (string, error) {
			if value == "" {
				return "", spec.ErrUnset
			}
			return value, nil
		})
		text, l, from := n.Get("a").Text(), spec.NewLocator([]byte(src)), 0
		for _, start := range want {
			from += strings.Index(text.Value[from:], "KEY")
			r, exact := l.Locate(text, from, from+3)
			if exact != (start >= 0) || exact && r.Start != start {
				t.Errorf("value %q: Locate(%d) = %v, %v, want %d", value, from, r, exact, start)
			}
			from += 3
		}
	}
}

// A document in one long line costs its length, not its square.
func TestLocateInLongLine(t *testing.T) {
	src := "[" + strings.Repeat("é, ", 3000) + "KEY" + strings.Repeat(", {a: KEY}", 3000) + "]"
	n, ds := spec.Parse("x.yaml", []byte(src))
	if len(ds) > 0 {
		t.Fatal(ds)
	}
	l := spec.NewLocator([]byte(src))
	for i, item := range n.Items[3000:] {
		if item.Kind == spec.Mapping {
			item = item.Get("a")
		}
		r, ok := l.Locate(item.Text(), 0, 3)
		if !ok || src[r.Start:r.End] != "KEY" {
			t.Fatalf("item %d: Locate() = %v, %v", i, r, ok)
		}
	}
}

// A value's range ends after its last character, quote or bracket.
func TestRangeOfValues(t *testing.T) {
	for src, want := range map[string]string{
		"a: word # no\nb: 1\n":       "word",
		"a: 'it''s'\nb: 1\n":         "'it''s'",
		"a: \"x\\\"y\"\n":            `"x\"y"`,
		"a: |\n  one\n  two\nb: 1\n": "|\n  one\n  two\n",
		"a: {x: 1, y: [2, 3] }\n":    "{x: 1, y: [2, 3] }",
		"a:\n  x: 1\n  y: two\nb: 1": "x: 1\n  y: two",
		"a: {}\nb: 1\n":              "{}",
	} {
		n, ds := spec.Parse("x.yaml", []byte(src))
		if len(ds) > 0 {
			t.Fatal(ds)
		}
		if r := spec.NewLocator([]byte(src)).RangeOf(n.Get("a")); src[r.Start:r.End] != want {
			t.Errorf("RangeOf in %q = %q, want %q", src, src[r.Start:r.End], want)
		}
	}
}

// Every part that is found has the same bytes in the file.
func FuzzLocate(f *testing.F) {
	f.Add("a: >-\n  one\n  two\n\n    three\n  four\n")
	f.Add("a: \"one\n  two \\\n  three\"\n")
	f.Fuzz(func(t *testing.T, src string) {
		n, ds := spec.Parse("x.yaml", []byte(src))
		if ds.HasErrors() || len(src) > 2000 {
			t.Skip()
		}
		l := spec.NewLocator([]byte(src))
		l.RangeOf(n)
		for _, e := range n.Entries {
			text := e.Value.Text()
			for from := range text.Value {
				if r, ok := l.Locate(text, from, len(text.Value)); ok && src[r.Start:r.End] != text.Value[from:] {
					t.Fatalf("Locate() = %q, want %q", src[r.Start:r.End], text.Value[from:])
				}
			}
		}
	})
}

// The names in a short schema are its words that are not types.
func TestSchemaNames(t *testing.T) {
	for src, want := range map[string]string{
		"Order": "Order",
		"{id: string, items: [Item], by: {p: User}}":      "Item User",
		"{a: {enum: [x, y]}}":                             "",
		"{type: object, properties: {a: {type: string}}}": "",
		"string": "",
	} {
		n, ds := spec.Parse("x.yaml", []byte(src))
		if len(ds) > 0 {
			t.Fatal(ds)
		}
		names, plain := spec.SchemaNames(n)
		var got []string
		for _, name := range names {
			got = append(got, name.Value)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("SchemaNames(%s) = %q, want %q", src, got, want)
		}
		if again, _ := spec.SchemaNames(plain); len(again) > 0 {
			t.Errorf("SchemaNames(%s) leaves %v", src, again)
		}
	}
}
