package mcptool

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/pkg/session"
)

//lint:file-ignore SA1019 servers use sampling until MCP removes it

// A stateless server asks in a result (MCP 2026-07-28, multi round-trip requests): the result has
// the questions and a state, and the call is made again with the answers and that state. The model
// answers at once. A person answers as in elicit.go: the state and the other answers are stored with
// the question, so that any process can make the call again.

// The bounds for what a server asks in one result.
const (
	maxRounds       = 10
	maxRequestState = 64 << 10
	maxStoredRound  = 256 << 10
)

// An inputRound is what a server asked for in one result, and the answers.
type inputRound struct {
	State    string                     `json:"state,omitempty"`
	Requests map[string]json.RawMessage `json:"requests"`
	// Responses are the answers by the requests' ids.
	Responses mcp.InputResponseMap `json:"responses,omitempty"`
	// Task is the task that asks; nil for a call's result.
	Task *storedTask `json:"task,omitempty"`
}

// callQuestions answer what a server asks during one call. Both are nil for a server that may not
// ask.
type callQuestions struct {
	person *elicitCall
	model  *samplingCall
}

// decodeRound returns what a result asks for; it is nil for a result that completes the call.
func decodeRound(raw []byte) (*inputRound, error) {
	var result struct {
		ResultType    string                     `json:"resultType"`
		InputRequests map[string]json.RawMessage `json:"inputRequests"`
		RequestState  json.RawMessage            `json:"requestState"`
	}
	if !bytes.Contains(raw, []byte("input_required")) || json.Unmarshal(raw, &result) != nil || result.ResultType != "input_required" {
		return nil, nil
	}
	round := &inputRound{Requests: result.InputRequests, Responses: mcp.InputResponseMap{}}
	switch {
	case !isNull(result.RequestState) && json.Unmarshal(result.RequestState, &round.State) != nil:
		return nil, limitError{"the server's requestState is not a string"}
	case len(round.State) > maxRequestState:
		return nil, limitError{fmt.Sprintf("the server's requestState exceeds the limit of %d KiB", maxRequestState>>10)}
	case len(round.Requests) > maxQuestions:
		return nil, limitError{fmt.Sprintf("the server asks %d questions at once, and the limit is %d", len(round.Requests), maxQuestions)}
	}
	return round, nil
}

// answerRound answers a round's requests: those to the model, and those that the person has
// answered. It returns false if the person must answer first; the question is then person.asked.
func (q callQuestions) answerRound(ctx context.Context, l *link, round *inputRound) (bool, error) {
	var toPerson []string
	for _, id := range slices.Sorted(maps.Keys(round.Requests)) {
		if round.Responses[id] != nil {
			continue
		}
		var request struct {
			Method string
			Params json.RawMessage
		}
		if err := json.Unmarshal(round.Requests[id], &request); err != nil {
			return false, limitError{"the server asks with a request that cannot be read"}
		}
		switch {
		case request.Method == "elicitation/create" && q.person != nil:
			toPerson = append(toPerson, id)
		case request.Method == "elicitation/create":
			return false, limitError{"the server asks the user a question, which it may only with elicitation: true"}
		case request.Method == "sampling/createMessage" && q.model != nil:
			params := &mcp.CreateMessageParams{}
			if err := json.Unmarshal(request.Params, params); err != nil {
				return false, limitError{"the server asks the model with a request that cannot be read"}
			}
			res, err := q.model.answerRequest(ctx, l.logger, params)
			if err != nil {
				return false, limitError{"the server asks the model: " + err.Error()}
			}
			round.Responses[id] = res
		case request.Method == "sampling/createMessage":
			return false, limitError{"the server asks the model, which it may only with sampling"}
		default:
			return false, limitError{fmt.Sprintf("the server asks for %s, which agenthost does not offer", cutText(l.cleanText(request.Method), maxNameShown))}
		}
	}
	for _, id := range toPerson {
		answered, err := q.person.answerInRound(ctx, round, id)
		if err != nil || !answered {
			return false, err
		}
	}
	return true, nil
}

// answerInRound answers one question in a round with the person's answer, or keeps the question and
// returns false.
func (c *elicitCall) answerInRound(ctx context.Context, round *inputRound, id string) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var request struct{ Params *mcp.ElicitParams }
	if err := json.Unmarshal(round.Requests[id], &request); err != nil || request.Params == nil {
		return false, limitError{"the server asks the user with a question that cannot be read"}
	}
	schema, ok := readQuestionSchema(request.Params)
	if !ok {
		round.Responses[id] = &mcp.ElicitResult{Action: "cancel"}
		return true, nil
	}
	if key := questionKey(request.Params); len(c.stored) > 0 && c.stored[0].key == key && c.answers == id {
		given := c.stored[0]
		c.stored = nil
		if content, err := checkAnswer(ctx, schema, given.content); err == nil {
			round.Responses[id] = &mcp.ElicitResult{Action: "accept", Content: content}
			return true, nil
		}
	}
	c.asked, c.round, c.answers = request.Params, round, id
	return false, nil
}

// encodeRound returns a round as a value for the payload of a confirmation.
func (r *inputRound) encodeRound(l *link) (any, error) {
	if l.redactor.RedactString(r.State) != r.State {
		return nil, limitError{"the server's requestState contains a credential"}
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if len(raw) > maxStoredRound {
		return nil, limitError{fmt.Sprintf("the server's questions exceed the limit of %d KiB", maxStoredRound>>10)}
	}
	v, err := session.DecodeValue(raw)
	if err != nil {
		return nil, err
	}
	return l.redactor.RedactValue(v), nil
}

// decodeStoredRound returns the round in the payload of a confirmation, or nil.
func decodeStoredRound(v any) *inputRound {
	if v == nil {
		return nil
	}
	raw, err := json.Marshal(v)
	if err != nil || len(raw) > maxStoredRound {
		return nil
	}
	round := &inputRound{}
	if json.Unmarshal(raw, round) != nil || len(round.Requests) > maxQuestions {
		return nil
	}
	if round.Responses == nil {
		round.Responses = mcp.InputResponseMap{}
	}
	return round
}
