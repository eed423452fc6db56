package provider

import (
	"encoding/json"
	"math"

	"agenthost/internal/number"
)

// A tokenCount is a number of tokens. Servers write it as 4, 4.0, "4" or null. Anything
// else is 0: a count is not worth an answer.
type tokenCount int32

// maxTokenCount limits a count, so that sums of some counts do not overflow.
const maxTokenCount = math.MaxInt32 / 8

// UnmarshalJSON reads any of these forms.
func (c *tokenCount) UnmarshalJSON(data []byte) error {
	*c = 0
	var text json.Number // reads a number and its text
	if json.Unmarshal(data, &text) != nil {
		return nil
	}
	*c = parseTokenCount(string(text))
	return nil
}

// parseTokenCount parses the text of a count.
func parseTokenCount(text string) tokenCount {
	n, _ := number.ParseWhole(text).(int64)
	return tokenCount(min(max(n, 0), maxTokenCount))
}
