package server

import (
	"bytes"
	"fmt"
	"net/http"

	"agenthost/pkg/runtime"
)

// maxValues limits the values and keys of a body. A value that takes one byte to send
// takes dozens of bytes in memory.
const maxValues = 250_000

// tooManyValuesError reports a body with more than maxValues values.
type tooManyValuesError struct{}

// Error returns the detail of the response.
func (tooManyValuesError) Error() string {
	return fmt.Sprintf("Request body exceeds the limit of %d values", maxValues)
}

func (e tooManyValuesError) toFailure() failure {
	return failure{http.StatusRequestEntityTooLarge, runtime.CodeInvalidRequest, e.Error(), 0}
}

// exceedsMaxValues counts the separators before values. Most bodies have so few of
// these characters that they need not be parsed.
func exceedsMaxValues(text []byte) bool {
	atMost := 0
	for _, mark := range []string{",", "[", "{", ":"} {
		atMost += bytes.Count(text, []byte(mark))
	}
	return atMost > maxValues && countSeparators(text) > maxValues
}

// countSeparators counts the separators outside of strings.
func countSeparators(text []byte) (n int) {
	inString := false
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			inString = !inString
		case '\\':
			i++
		case ',', '[', '{', ':':
			if !inString {
				n++
			}
		}
	}
	return n
}
