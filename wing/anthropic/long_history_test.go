package anthropic

import (
	"strconv"
	"testing"

	"google.golang.org/genai"

	"agenthost/internal/legalrequest"
	"agenthost/pkg/model"
)

// A client may create a session with any history. It is made legal in linear time: each history
// here would take minutes otherwise.
func TestLongHistories(t *testing.T) {
	const n = 20_000
	call := func(id int) *genai.Part {
		return &genai.Part{FunctionCall: &genai.FunctionCall{ID: strconv.Itoa(id), Name: "f"}}
	}
	response := func(id int) *genai.Part {
		return &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: strconv.Itoa(id), Name: "f"}}
	}
	var sameID, texts, apart []*genai.Content
	calls, responses := &genai.Content{Role: genai.RoleModel}, &genai.Content{Role: genai.RoleUser}
	for i := range n {
		sameID = append(sameID, &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{call(0)}}, &genai.Content{Role: genai.RoleUser, Parts: []*genai.Part{response(0)}})
		texts = append(texts, model.UserText("x"))
		calls.Parts, responses.Parts = append(calls.Parts, call(i)), append(responses.Parts, response(n-1-i))
		apart = append(apart, &genai.Content{Role: genai.RoleUser, Parts: []*genai.Part{response(n - 1 - i)}})
	}
	for _, tt := range []struct {
		name        string
		contents    []*genai.Content
		want, parts int
	}{
		{"one ID", sameID, 2*n + 1, 2*n + 1},
		{"texts of the user", texts, 1, n},
		{"calls in one content", []*genai.Content{calls, responses}, 3, 2*n + 1},
		{"responses one by one", append([]*genai.Content{calls}, apart...), 3, 2*n + 1},
	} {
		got := legalrequest.New(t.Context(), &anthropicRules, "anthropic", &model.Request{Contents: tt.contents}).Contents
		parts, used := 0, map[string]bool{}
		for _, c := range got {
			parts += len(c.Parts)
			for _, call := range model.CallsOf(c) {
				used[call.ID] = true
			}
		}
		if len(got) != tt.want || parts != tt.parts || len(used) != n && tt.name != "texts of the user" {
			t.Errorf("%s: %d contents with %d parts and %d IDs, want %d with %d", tt.name, len(got), parts, len(used), tt.want, tt.parts)
		}
	}
}
