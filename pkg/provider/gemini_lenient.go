package provider

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
)

// decodeAnswers returns the responses of a body or an event: one, or a list of them, which
// is the service's form of a stream without alt=sse.
func decodeAnswers(data []byte) (answers [][]byte, check answerCheck, err error) {
	list := []json.RawMessage{data}
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("[")) {
		list = nil
		if err := json.Unmarshal(data, &list); err != nil {
			return nil, check, err
		}
	}
	for _, item := range list {
		answer, last, err := decodeAnswer(item)
		if err != nil {
			return nil, check, err
		}
		answers = append(answers, answer)
		check.failed = check.failed || last.failed
		check.finishMessage = firstNonEmpty(last.finishMessage, check.finishMessage)
	}
	return answers, check, nil
}

// decodeAnswer returns a response whose fields have the types of the API, also if a gateway
// writes them in others.
func decodeAnswer(data []byte) ([]byte, answerCheck, error) {
	if quoted, err := quoteArguments(data); err == nil {
		data = quoted
	}
	check, err := checkAnswer(data)
	if err == nil {
		return data, check, nil
	}
	repaired, ok := repairAnswer(data)
	if !ok {
		return nil, check, err
	}
	check, err = checkAnswer(repaired)
	return repaired, check, err
}

// repairAnswer returns a response with counts, IDs and arguments in the types of the API.
func repairAnswer(data []byte) (repaired []byte, ok bool) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var answer map[string]any
	if decoder.Decode(&answer) != nil {
		return nil, false
	}
	repairFields(answer)
	repaired, err := json.Marshal(answer)
	return repaired, err == nil
}

// repairFields repairs the fields of a value and of those within it.
func repairFields(value any) {
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			repairFields(item)
		}
	case map[string]any:
		for name, inner := range v {
			switch {
			case strings.HasSuffix(name, "TokenCount"):
				v[name] = wholeNumber(inner)
			case name == "functionCall":
				repairCall(inner)
			case name != "args":
				repairFields(inner)
			}
		}
	}
}

// repairCall makes the ID of a call a string, and its arguments an object.
func repairCall(call any) {
	c, _ := call.(map[string]any)
	if id, ok := c["id"].(json.Number); ok {
		c["id"] = id.String()
	}
	if text, ok := c["args"].(string); ok && isObject(text) {
		c["args"] = json.RawMessage(text)
	}
}

// wholeNumber returns a count without its fraction. Another value is 0: a count is not worth
// an answer.
func wholeNumber(value any) int64 {
	var text json.Number
	switch v := value.(type) {
	case json.Number:
		text = v
	case string:
		text = json.Number(v)
	}
	n, err := text.Float64()
	if err != nil || math.IsNaN(n) {
		return 0
	}
	return int64(min(max(n, 0), math.MaxInt32/8))
}
