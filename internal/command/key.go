package command

import (
	"os"
	"strings"

	"agenthost/internal/policy"
)

// ReadKey returns the text of a flag's key: source is a file, or env:NAME for a variable, which apps may not read.
// The caller reserves the key's values.
func ReadKey(flag, source string, reserved *policy.Host) (string, error) {
	name, ok := strings.CutPrefix(source, "env:")
	if !ok {
		text, err := os.ReadFile(source)
		if err != nil {
			return "", FailWithf("%s: %w", flag, err)
		}
		return string(text), nil
	}
	reserved.Variables = append(reserved.Variables, name)
	text := os.Getenv(name)
	if text == "" {
		return "", FailWithf("%s: environment variable %s is not set", flag, name)
	}
	return text, nil
}
