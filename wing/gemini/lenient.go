package gemini

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/modelapi"
)

// decodeAnswers returns the responses in a body or an event: one response, or a list, the service's
// form for a stream without alt=sse.
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
		check.finishMessage = cmp.Or(last.finishMessage, check.finishMessage)
	}
	return answers, check, nil
}

// decodeAnswer returns a response whose fields have the API's types, also if a gateway writes
// others. The free values in its parts are text.
func decodeAnswer(data []byte) ([]byte, answerCheck, error) {
	if !mayHaveValues(data) {
		if check, err := checkAnswer(data); err == nil {
			return data, check, nil
		}
	}
	if repaired, ok := repairAnswer(data); ok {
		data = repaired
	}
	check, err := checkAnswer(data)
	return data, check, err
}

// mayHaveValues reports whether a response may have free values: it contains such a name, or an
// escape that may hide a name.
func mayHaveValues(data []byte) bool {
	for _, f := range freeValues {
		if bytes.Contains(data, []byte(`"`+f.field+`"`)) {
			return true
		}
	}
	return bytes.Contains(data, []byte(`\u00`))
}

// repairAnswer returns a response with counts and IDs in the API's types, and with the free values
// in its parts as text.
func repairAnswer(data []byte) (repaired []byte, ok bool) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var answer map[string]any
	if decoder.Decode(&answer) != nil {
		return nil, false
	}
	for _, candidate := range toMappings(answer["candidates"]) {
		content, _ := candidate["content"].(map[string]any)
		for _, part := range toMappings(content["parts"]) {
			quoteValues(part)
			if call, ok := part["functionCall"].(map[string]any); ok {
				if id, ok := call["id"].(json.Number); ok {
					call["id"] = id.String()
				}
			}
		}
	}
	repairCounts(answer)
	repaired, err := json.Marshal(answer)
	return repaired, err == nil
}

// repairCounts makes token counts in a value whole numbers.
func repairCounts(value any) {
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			repairCounts(item)
		}
	case map[string]any:
		for name, inner := range v {
			if strings.HasSuffix(name, "TokenCount") {
				v[name] = modelapi.ParseTokenCount(fmt.Sprint(inner))
			} else {
				repairCounts(inner)
			}
		}
	}
}

// An answerCheck is what the transport reads from a response.
type answerCheck struct {
	// failed reports that the response is an error inside a stream.
	failed bool
	// finishMessage belongs to the first candidate.
	finishMessage string
}

// checkAnswer returns an error if a response does not have the structure that the SDK
// assumes.
func checkAnswer(answer []byte) (answerCheck, error) {
	// Without the SDK type's methods, one pass decodes all.
	type response genai.GenerateContentResponse
	var r struct {
		response
		Error *genai.APIError
	}
	err := json.Unmarshal(answer, &r)
	check := answerCheck{failed: r.Error != nil}
	if len(r.Candidates) > 0 && r.Candidates[0] != nil {
		check.finishMessage = r.Candidates[0].FinishMessage
	}
	return check, err
}

// finishMessageHeader is a header that the transport adds to a response: the SDK passes headers on,
// and drops the Gemini API's finish message.
const finishMessageHeader = "X-Agenthost-Finish-Message"

// addFinishMessage adds the finish message to a response's headers.
func (c answerCheck) addFinishMessage(h http.Header) {
	if c.finishMessage != "" {
		h.Set(finishMessageHeader, c.finishMessage)
	}
}
