package a2aagent

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"google.golang.org/genai"

	"agenthost/internal/a2apart"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
)

// A waiting is what a question's payload has: the remote task that waits, and its call if it has one.
type waiting struct {
	Task    string `json:"task_id"`
	Context string `json:"context_id"`
	// Call and Name are the remote call's.
	Call string `json:"call_id,omitempty"`
	Name string `json:"call_name,omitempty"`
}

// newMessage returns the message with what is new in a conversation: the parts after the agent's last
// answer, or the answers to its questions, which continue their task.
func newMessage(req *model.Request) (*a2a.Message, error) {
	start, questions, known := 0, map[string]waiting{}, req.Config.Labels[contextLabel]
	for i, c := range req.Contents {
		if c.Role != genai.RoleModel || isConsentCall(c) {
			continue
		}
		start = i + 1
		for _, p := range c.Parts {
			if p.FunctionCall != nil {
				questions[p.FunctionCall.ID] = readPayload(p.FunctionCall.Args)
			}
		}
	}
	m := a2a.NewMessage(a2a.MessageRoleUser)
	var answers, parts a2a.ContentParts
	for _, c := range req.Contents[start:] {
		for _, p := range c.Parts {
			if p.FunctionResponse == nil {
				if part := a2apart.BuildPart(p, false, nil); part != nil {
					parts = append(parts, part)
				}
				continue
			}
			q, ok := questions[p.FunctionResponse.ID]
			// A client may have created the session with a question of its own: only a task in this session's
			// context can get an answer.
			if !ok || q.Task == "" || q.Context != known || m.TaskID != "" && m.TaskID != a2a.TaskID(q.Task) {
				continue
			}
			m.TaskID = a2a.TaskID(q.Task)
			answers = append(answers, q.buildAnswer(p.FunctionResponse.Response))
		}
	}
	m.ContextID = known
	if m.Parts = answers; len(answers) == 0 {
		m.Parts = parts
	}
	if len(m.Parts) == 0 {
		return nil, errors.New("there is nothing new to send: no message since its last answer")
	}
	return m, nil
}

// isConsentCall reports whether a content only calls the consent tool: what is before it was not sent.
func isConsentCall(c *genai.Content) bool {
	return len(c.Parts) == 1 && c.Parts[0].FunctionCall != nil && c.Parts[0].FunctionCall.Name == consentToolName
}

// readPayload reads a question's payload; another call has none.
func readPayload(args map[string]any) (w waiting) {
	raw, err := json.Marshal(args["payload"])
	if err != nil || json.Unmarshal(raw, &w) != nil {
		return waiting{}
	}
	return w
}

// buildAnswer returns the part that answers a question: the response to the remote call, or text.
func (w waiting) buildAnswer(response map[string]any) *a2a.Part {
	result, hasResult := response["result"]
	if w.Call == "" {
		if text, ok := result.(string); ok {
			return a2a.NewTextPart(text)
		}
		if !hasResult {
			result = response
		}
		return a2a.NewDataPart(result)
	}
	if w.Name == runtime.RequestConfirmation && hasResult {
		response = map[string]any{"confirmed": isYes(result)}
	}
	part := a2a.NewDataPart(map[string]any{"id": w.Call, "name": w.Name, "response": response})
	part.SetMeta(a2apart.TypeKey, a2apart.TypeResponse)
	return part
}

// isYes reports whether a person has approved. Everything but yes, which the question's schema has, is a no.
func isYes(answer any) bool {
	text, _ := answer.(string)
	return answer == true || strings.EqualFold(strings.TrimSpace(text), "yes")
}
