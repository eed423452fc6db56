package a2acard

import (
	"encoding/json"
	"testing"
)

// Canonical forms: those in RFC 8785, and what Go writes in another way.
func TestCanonicalForm(t *testing.T) {
	for text, want := range map[string]string{
		`{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001,-0,1e21,100000000000000000000],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}`: `{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27,0,1e+21,100000000000000000000],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
		`{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}`: "{\"\\r\":2,\"1\":4,\"\u0080\":6,\"ö\":7,\"€\":1,\"😀\":5,\"\ufb33\":3}",
		`["<>&\u2028\u007f\b\f\t\u0000"]`:                                             "[\"<>&\u2028\u007f\\b\\f\\t\\u0000\"]",
		` [ ] `:                                                                       "[]",
	} {
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		if got, err := appendCanonical(nil, value); err != nil || string(got) != want {
			t.Errorf("canonical form of %s:\n%s\nwant\n%s\n%v", text, got, want, err)
		}
	}
	if _, err := appendCanonical(nil, 7); err == nil || err.Error() != "int has no canonical form" {
		t.Errorf("another type: %v", err)
	}
}
