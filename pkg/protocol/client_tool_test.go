package protocol

import (
	"testing"

	"agenthost/pkg/tool"
)

// A client's tool is long-running, and its name is one that models can have and the host does not use.
func TestClientTools(t *testing.T) {
	for name, want := range map[string]string{
		"get_weather":       "",
		"":                  `the name must have 1 to 64 characters: letters, digits, _ and -, got ""`,
		"a b":               `the name must have 1 to 64 characters: letters, digits, _ and -, got "a b"`,
		"adk_request_input": `the name "adk_request_input" is reserved`,
	} {
		own, err := NewClientTool(name, "About it.", nil)
		if got := errorText(err); got != want {
			t.Errorf("%q: got %s, want %s", name, got, want)
		}
		if err == nil && !tool.CapabilitiesOf(own).LongRunning {
			t.Errorf("%q does not wait for its result", name)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
