package runtime

import (
	"fmt"
	"testing"

	"google.golang.org/genai"
)

// TestLastTurns: the cut is at a user's word, or earlier where an answer's call would be lost. In
// the tables u is a user's word, m a model's, c a call and r its answer.
func TestLastTurns(t *testing.T) {
	tests := []struct {
		contents string
		keep     int
		from     int
	}{
		{"u", 1, 0},
		{"umum", 1, 2},
		{"umu", 1, 2},
		{"umumu", 2, 2},
		{"umumu", 3, 0},
		{"umumu", 9, 0},
		{"umuum", 1, 2},
		{"umucrm", 1, 2},
		{"ucmurm", 1, 1},
		{"ucrmum", 1, 4},
		{"", 1, 0},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.contents, tt.keep), func(t *testing.T) {
			var all []*genai.Content
			for i, c := range tt.contents {
				p, role := &genai.Part{Text: fmt.Sprint(i)}, genai.RoleUser
				switch c {
				case 'm':
					role = genai.RoleModel
				case 'c':
					p, role = &genai.Part{FunctionCall: &genai.FunctionCall{ID: "1"}}, genai.RoleModel
				case 'r':
					p = &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: "1"}}
				}
				all = append(all, &genai.Content{Role: role, Parts: []*genai.Part{p}})
			}
			if got := len(all) - len(lastTurns(all, tt.keep)); got != tt.from {
				t.Errorf("lastTurns(%s, %d) begins at %d, want %d", tt.contents, tt.keep, got, tt.from)
			}
		})
	}
}
