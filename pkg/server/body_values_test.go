package server_test

import (
	"strings"
	"testing"

	"agenthost/pkg/runtime"
)

// A body is refused that is small to send and large to hold: one of more values
// than a person has a use for. What stands in texts is no value.
func TestBodyWithTooManyValues(t *testing.T) {
	e := newEnv(t, nil)
	e.addLLMApp(t, "hello", &runtime.LLMOptions{Model: scriptedModel(t)})
	const path, refused = "/apps/hello/users/u/sessions", `{"detail":"Request body holds more than 250000 values"}`
	for name, state := range map[string]string{
		"a list":   `{"a":[` + strings.Repeat("0,", 250_000) + `0]}`,
		"a nest":   `{"a":` + strings.Repeat("[[],[[]],{}],", 60_000) + `0}`,
		"mappings": `{"a":[` + strings.Repeat(`{"a":1},`, 130_000) + `0]}`,
		"unended":  `{"a":"\"` + strings.Repeat(`\\","b":"`, 260_000),
	} {
		expectResponse(t, e.serve("POST", path, `{"state":`+state+`}`), 413, refused)
		expectResponse(t, e.serve("POST", path+"/s", state), 413, refused)
		if t.Failed() {
			t.Fatal(name)
		}
	}
	for name, state := range map[string]string{
		"a list": `{"a":[` + strings.Repeat("0,", 200_000) + `0]}`,
		"a text": `{"a":"` + strings.Repeat(`,[{\"`, 300_000) + `"}`,
	} {
		if w := e.serve("POST", path, `{"state":`+state+`}`); w.Code != 200 {
			t.Errorf("%s: %d %.100s", name, w.Code, w.Body)
		}
	}
}
