package spec_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"agenthost/pkg/spec"
)

// A Redactor replaces a secret in each of its encodings, and nothing else.
func TestRedactor(t *testing.T) {
	const secret = `k3y/w1th <&"\+é`
	inJSON, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	r := spec.NewRedactor(secret, "abc", "")
	for name, text := range map[string]string{
		"as it is": secret, "Go": fmt.Sprintf("%q", secret), "ASCII": fmt.Sprintf("%+q", secret), "JSON": string(inJSON), "JSON of PHP": strings.ReplaceAll(string(inJSON), "/", `\/`),
		"a query": url.QueryEscape(secret), "a path": url.PathEscape(secret), "hexadecimal": fmt.Sprintf("%x", secret), "upper case": fmt.Sprintf("%X", secret),
		"base64": base64.StdEncoding.EncodeToString([]byte(secret)), "base64 for URLs": base64.RawURLEncoding.EncodeToString([]byte(secret)),
	} {
		got := strings.Trim(r.RedactString("<"+text+">"), `<>"=`)
		if got != "***" {
			t.Errorf("%s: RedactString(%s) = %s, want ***", name, text, got)
		}
	}
	for before := range 7 {
		basic := base64.StdEncoding.EncodeToString([]byte("me-too:"[before:] + secret + "@"))
		if got := r.RedactString(basic); !strings.Contains(got, "***") || len(got) > len("***")+16 {
			t.Errorf("RedactString(%s) = %s, want at most 16 other characters than ***", basic, got)
		}
	}
	got := r.RedactValue(map[string]any{"a": []any{secret, 1, nil}, secret: map[string]any{"b": "abc " + secret}})
	if want := map[string]any{"a": []any{"***", 1, nil}, "***": map[string]any{"b": "abc ***"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("RedactValue = %v, want %v", got, want)
	}
	if got := (*spec.Redactor)(nil).RedactString(secret); got != secret {
		t.Errorf("nil Redactor: %s, want it unchanged", got)
	}
}
