package modelapi

import (
	"encoding/json"
	"math"

	"agenthost/internal/number"
)

// A TokenCount is a number of tokens. Servers write it as 4, 4.0, "4" or null. Anything
// else is 0: a count is not worth an answer.
type TokenCount int32

// MaxTokenCount limits a count, so that sums of some counts do not overflow.
const MaxTokenCount = math.MaxInt32 / 8

// UnmarshalJSON reads any of these forms.
func (c *TokenCount) UnmarshalJSON(data []byte) error {
	*c = 0
	var text json.Number // reads a number and its text
	if json.Unmarshal(data, &text) != nil {
		return nil
	}
	*c = ParseTokenCount(string(text))
	return nil
}

// ParseTokenCount parses the text of a count.
func ParseTokenCount(text string) TokenCount {
	n, _ := number.ParseWhole(text).(int64)
	return TokenCount(min(max(n, 0), MaxTokenCount))
}
