package server_test

import (
	"strings"
	"testing"

	"agenthost/pkg/runtime"
)

// A body with too many values is rejected even if it is small. Separators inside
// strings do not count.
func TestBodyWithTooManyValues(t *testing.T) {
	e := newEnv(t, nil)
	e.addLLMApp(t, "hello", &runtime.LLMOptions{Model: scriptedModel(t)})
	const path, tooMany = "/apps/hello/users/u/sessions", `{"detail":"Request body exceeds the limit of 250000 values"}`
	for name, state := range map[string]string{
		"list":         `{"a":[` + strings.Repeat("0,", 250_000) + `0]}`,
		"nested lists": `{"a":` + strings.Repeat("[[],[[]],{}],", 60_000) + `0}`,
		"objects":      `{"a":[` + strings.Repeat(`{"a":1},`, 130_000) + `0]}`,
		"unterminated": `{"a":"\"` + strings.Repeat(`\\","b":"`, 260_000),
	} {
		expectResponse(t, e.serve("POST", path, `{"state":`+state+`}`), 413, tooMany)
		expectResponse(t, e.serve("POST", path+"/s", state), 413, tooMany)
		if t.Failed() {
			t.Fatal(name)
		}
	}
	for name, state := range map[string]string{
		"list":   `{"a":[` + strings.Repeat("0,", 200_000) + `0]}`,
		"string": `{"a":"` + strings.Repeat(`,[{\"`, 300_000) + `"}`,
	} {
		if w := e.serve("POST", path, `{"state":`+state+`}`); w.Code != 200 {
			t.Errorf("%s: %d %.100s", name, w.Code, w.Body)
		}
	}
}
