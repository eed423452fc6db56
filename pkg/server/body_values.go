package server

import (
	"bytes"
	"fmt"
	"net/http"

	"agenthost/pkg/runtime"
)

// maxValues bounds the values and keys of a body. A value may take a byte to send,
// and takes dozens to hold.
const maxValues = 250_000

// tooManyValuesError is the error of a body with too many values.
type tooManyValuesError struct{}

// Error is what the client is told.
func (tooManyValuesError) Error() string {
	return fmt.Sprintf("Request body holds more than %d values", maxValues)
}

func (e tooManyValuesError) toFailure() failure {
	return failure{http.StatusRequestEntityTooLarge, runtime.CodeInvalidRequest, e.Error(), 0}
}

// exceedsMaxValues says whether a JSON text has too many values. A value is counted by what
// stands before it; most texts have so few of those letters that it need not be
// found out which of them stand in texts.
func exceedsMaxValues(text []byte) bool {
	most := 0
	for _, mark := range []string{",", "[", "{", ":"} {
		most += bytes.Count(text, []byte(mark))
	}
	return most > maxValues && countSeparators(text) > maxValues
}

// countSeparators counts the marks that do not stand in texts.
func countSeparators(text []byte) (n int) {
	inText := false
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			inText = !inText
		case '\\':
			i++
		case ',', '[', '{', ':':
			if !inText {
				n++
			}
		}
	}
	return n
}
