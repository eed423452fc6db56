package modelapi

import (
	"encoding/json"
	"slices"
	"strings"
)

// Compatible servers write some fields in other JSON types than the API: IDs and indexes as numbers
// or strings, a call's arguments as an object or as a string with its JSON. The types below read
// all of them, as LiteLLM and the vendors' SDKs do.

// A LooseText is a string that may be written as a number. null is "".
type LooseText string

// UnmarshalJSON reads a string, or a number's digits.
func (t *LooseText) UnmarshalJSON(data []byte) error {
	var text string
	if isNumber(data) {
		text = string(data)
	} else if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	*t = LooseText(text)
	return nil
}

// A LooseIndex is a small whole number that may be written as 1.0 or "1". null is 0.
type LooseIndex int

// UnmarshalJSON reads a number, or a string with one.
func (i *LooseIndex) UnmarshalJSON(data []byte) error {
	var text json.Number // reads a number and its text
	if err := json.Unmarshal(data, &text); err != nil || text == "" {
		return err
	}
	n, err := text.Float64()
	*i = LooseIndex(n)
	return err
}

func isNumber(data []byte) bool {
	return len(data) > 0 && (data[0] == '-' || '0' <= data[0] && data[0] <= '9')
}

// LooseJSON is the JSON arguments of a call, or a chunk of them: a string as the API writes it, or
// the object itself. null is "".
type LooseJSON string

// UnmarshalJSON reads either form.
func (j *LooseJSON) UnmarshalJSON(data []byte) error {
	*j = LooseJSON(UnquoteJSON(data))
	return nil
}

// UnquoteJSON returns a JSON string's text, "" for null, or else the JSON itself.
func UnquoteJSON(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// A LooseList is a list that may be written as its only element.
type LooseList[T any] []T

// UnmarshalJSON reads either form.
func (l *LooseList[T]) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' || string(data) == "null" {
		return json.Unmarshal(data, (*[]T)(l))
	}
	*l = make(LooseList[T], 1)
	return json.Unmarshal(data, &(*l)[0])
}

// JoinNameChunks returns a function name whose chunks arrived one by one: its parts, or in each
// chunk the whole name so far. A last chunk may repeat the whole name.
func JoinNameChunks(chunks []string) string {
	joined := strings.Join(chunks, "")
	if len(chunks) < 2 {
		return joined
	}
	before, last := chunks[:len(chunks)-1], chunks[len(chunks)-1]
	if strings.Join(before, "") == last || allBegin(last, before) {
		return last
	}
	return joined
}

// JoinArgumentChunks returns call arguments whose chunks arrived one by one: the parts of one JSON
// object, or in each chunk the whole object so far. Last chunks may repeat the whole object, and a
// first one may be an empty object that the others replace.
func JoinArgumentChunks(chunks []string) string {
	joined := strings.Join(chunks, "")
	if len(chunks) < 2 || IsObject(joined) {
		return joined
	}
	for n := len(chunks); n > 2 && chunks[n-1] == chunks[n-2]; n-- {
		chunks = chunks[:n-1]
	}
	first, last := chunks[0], chunks[len(chunks)-1]
	before, after := strings.Join(chunks[:len(chunks)-1], ""), strings.Join(chunks[1:], "")
	switch {
	case IsObject(last) && (IsObject(before) || allBegin(last, chunks)):
		return last
	case IsObject(first) && IsObject(after):
		return after
	}
	return joined
}

// allBegin reports whether text begins with each chunk.
func allBegin(text string, chunks []string) bool {
	return !slices.ContainsFunc(chunks, func(chunk string) bool { return !strings.HasPrefix(text, chunk) })
}

// IsObject reports whether a string is a JSON object.
func IsObject(text string) bool {
	return strings.HasPrefix(strings.TrimSpace(text), "{") && json.Valid([]byte(text))
}
