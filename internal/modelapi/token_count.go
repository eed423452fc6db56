package modelapi

import (
	"encoding/json"
	"math"

	"agenthost/internal/number"
)

// A TokenCount counts tokens. Servers write it as 4, 4.0, "4" or null. Anything else is 0: a count
// is not worth an answer.
type TokenCount int32

// MaxTokenCount limits a count, so that adding some counts does not overflow.
const MaxTokenCount = math.MaxInt32 / 8

// UnmarshalJSON reads each form above.
func (c *TokenCount) UnmarshalJSON(data []byte) error {
	*c = 0
	var text json.Number // reads a number and its text
	if json.Unmarshal(data, &text) != nil {
		return nil
	}
	*c = ParseTokenCount(string(text))
	return nil
}

// ParseTokenCount parses a count's text.
func ParseTokenCount(text string) TokenCount {
	n, _ := number.ParseWhole(text).(int64)
	return TokenCount(min(max(n, 0), MaxTokenCount))
}
