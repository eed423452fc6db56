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
		check.finishMessage = cmp.Or(last.finishMessage, check.finishMessage)
	}
	return answers, check, nil
}

// decodeAnswer returns a response whose fields have the types of the API, also if a gateway
// writes them in others. The free values of its parts are text.
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

// mayHaveValues reports whether a response may have free values: it contains the name of
// one, or an escape that may hide a name.
func mayHaveValues(data []byte) bool {
	for _, f := range freeValues {
		if bytes.Contains(data, []byte(`"`+f.field+`"`)) {
			return true
		}
	}
	return bytes.Contains(data, []byte(`\u00`))
}

// repairAnswer returns a response with counts and IDs in the types of the API, and with the
// free values of its parts as text.
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

// repairCounts makes the counts of tokens in a value whole numbers.
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

// An answerCheck is what the transport reads of a response.
type answerCheck struct {
	// failed reports that the response is an error inside a stream.
	failed bool
	// finishMessage is that of the first candidate.
	finishMessage string
}

// checkAnswer returns an error if a response does not have the structure that the SDK
// assumes.
func checkAnswer(answer []byte) (answerCheck, error) {
	// Without the methods of the SDK's type, one pass decodes all.
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

// finishMessageHeader is a header that the transport adds to a response: the SDK passes
// headers on, and drops the finish message of the Gemini API.
const finishMessageHeader = "X-Agenthost-Finish-Message"

// addFinishMessage adds the finish message to the headers of a response.
func (c answerCheck) addFinishMessage(h http.Header) {
	if c.finishMessage != "" {
		h.Set(finishMessageHeader, c.finishMessage)
	}
}
