package conformance

import (
	"strings"
	"testing"
)

// TestNormalizeLiterals: mappings and lists in text have one form, whether Python or JSON wrote
// them. All other text stays as it is.
func TestNormalizeLiterals(t *testing.T) {
	for text, want := range map[string]string{
		"[a] called tool `f` with parameters: {'b': 7, 'a': None}":  "[a] called tool `f` with parameters: {\"a\":null,\"b\":7}",
		`result: {"a": null, "b": 7.0}`:                             `result: {"a":null,"b":7}`,
		`{'x': "O'Neill", 'y': 'cry "hi"', 'z': 'it\'s "it"'}`:      `{"x":"O'Neill","y":"cry \"hi\"","z":"it's \"it\""}`,
		`{'t': True, 'f': False, "j": true}`:                        `{"f":false,"j":true,"t":true}`,
		`{'list': [1, (2, 3), (4,), ()], 'map': {}}`:                `{"list":[1,[2,3],[4],[]],"map":{}}`,
		`{'n': 9007199254740993, 'x': 1e+16, 'y': 0.10, 'z': -0.0}`: `{"n":9007199254740993,"x":10000000000000000,"y":0.1,"z":0}`,
		`{'s': 'a\nb\tc\\d\xe9\u00e9\U0001f600'}`:                   `{"s":"a\nb\tc\\déé😀"}`,
		`{"s": "\ud83d\ude00 caf\u00e9"}`:                           `{"s":"😀 café"}`,
		`{'n': nan, 'i': -inf}`:                                     `{"i":"-inf","n":"nan"}`,
		"one {'a': 1} and [2,  3] two":                              "one {\"a\":1} and [2,3] two",
		"[desk] said: {name} is None [sic] {'a'} {'a': b} {1: 2}":   "[desk] said: {name} is None [sic] {'a'} {'a': b} {1: 2}",
		"{'a': 1":                        "{'a': 1",
		"[1, 2":                          "[1, 2",
		`{'a': '\q'}`:                    `{'a': '\q'}`,
		`{'a': '\x4'}`:                   `{'a': '\x4'}`,
		"{'a': 'x\ny'}":                  "{'a': 'x\ny'}",
		"[,1] [1,,2] {,} {'a' 1} {'a':}": "[,1] [1,,2] {,} {'a' 1} {'a':}",
		"[[1, 2], x] [['a']]":            `[[1,2], x] [["a"]]`,
	} {
		if got := normalizeLiterals(text); got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
}

// TestNormalizeLiteralsIsLinear: brackets that begin no value are not read again and again.
func TestNormalizeLiteralsIsLinear(t *testing.T) {
	for _, unit := range []string{"[", "{'a':", "['", `["\"`, "[1,", "['x', ", "([", "{'[':"} {
		text := strings.Repeat(unit, 1<<18/len(unit))
		if got := normalizeLiterals(text); got != text {
			t.Errorf("%q repeated became %q…", unit, got[:40])
		}
	}
}

// FuzzNormalizeLiterals: a normalized text is its own normal form.
func FuzzNormalizeLiterals(f *testing.F) {
	f.Add(`x {'a': [None, 1e5, "\ud800", '\x00'], "b": (True,)} y`)
	f.Fuzz(func(t *testing.T, text string) {
		once := normalizeLiterals(text)
		if twice := normalizeLiterals(once); twice != once {
			t.Errorf("%q became %q and then %q", text, once, twice)
		}
	})
}
