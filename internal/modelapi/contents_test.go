package modelapi

import (
	"testing"

	"google.golang.org/genai"

	"agenthost/pkg/model"
)

// The last content must be the user's: an agent that continues after its own response
// gets an additional user message.
func TestEndWithUser(t *testing.T) {
	user, own := model.UserText("hi"), model.ModelText("hello")
	for _, tt := range []struct {
		name     string
		contents []*genai.Content
		added    bool
	}{
		{"no contents", nil, true},
		{"the model spoke last", []*genai.Content{user, own}, true},
		{"the user spoke last", []*genai.Content{user, own, user}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := EndWithUser(tt.contents)
			if (len(got) > len(tt.contents)) != tt.added || got[len(got)-1].Role != genai.RoleUser {
				t.Errorf("endWithUser(%d contents) = %d contents, the last by %s", len(tt.contents), len(got), got[len(got)-1].Role)
			}
		})
	}
}
