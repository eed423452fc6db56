package apptest

import (
	"fmt"

	"google.golang.org/genai"

	"agenthost/internal/turn"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/template"
)

// formatUserMessage returns the transcript lines for the user's message or decision.
func formatUserMessage(c *genai.Content) []string {
	var lines []string
	for _, p := range c.Parts {
		switch {
		case p.FunctionResponse != nil:
			lines = append(lines, fmt.Sprintf("  user ← %s %s", p.FunctionResponse.Name, formatMap(p.FunctionResponse.Response)))
		case p.Text != "":
			lines = append(lines, "  user: "+turn.TruncateText(p.Text))
		default:
			lines = append(lines, "  user: (a file)")
		}
	}
	return lines
}

// formatTurnOutcome returns the transcript lines for agents and tools.
func formatTurnOutcome(o *turn.Outcome) []string {
	var lines []string
	failed := ""
	for _, ev := range o.Events {
		failed = ev.ErrorCode
		if ev.Content != nil {
			for _, p := range ev.Content.Parts {
				lines = append(lines, formatPart(ev, p)...)
			}
		}
		if ev.IsPlainResult() {
			lines = append(lines, fmt.Sprintf("  %s: %s", ev.Author, turn.TruncateText(ev.ResultText())))
		}
		if delta := ev.Actions.StateDelta; len(delta) > 0 {
			lines = append(lines, fmt.Sprintf("  %s sets %s", ev.Author, formatMap(delta)))
		}
		if ev.ErrorCode != "" {
			lines = append(lines, fmt.Sprintf("  %s ! %s %s", ev.Author, ev.ErrorCode, turn.TruncateText(ev.ErrorMessage)))
		}
	}
	if o.Err != nil && o.Err.Code != failed {
		lines = append(lines, fmt.Sprintf("  ! %s %s", o.Err.Code, turn.TruncateText(unwrapInternalError(o.Err).Error())))
	}
	return lines
}

// formatPart returns a part's transcript line, if it has one.
func formatPart(ev *session.Event, p *genai.Part) []string {
	switch {
	case p.FunctionCall != nil && runtime.IsRequest(ev, p.FunctionCall):
		return []string{fmt.Sprintf("  %s asks the user%s", ev.Author, formatRequestSubject(p.FunctionCall))}
	case p.FunctionCall != nil:
		return []string{fmt.Sprintf("  %s → %s(%s)", ev.Author, p.FunctionCall.Name, formatMap(p.FunctionCall.Args))}
	case p.FunctionResponse != nil:
		return []string{fmt.Sprintf("  %s ← %s", p.FunctionResponse.Name, formatMap(p.FunctionResponse.Response))}
	case p.Text != "" && !p.Thought:
		return []string{fmt.Sprintf("  %s: %s", ev.Author, turn.TruncateText(p.Text))}
	}
	return nil
}

// formatRequestSubject returns what a request asks the user for: to approve a call, or for
// a credential.
func formatRequestSubject(request *genai.FunctionCall) string {
	a := runtime.ReadApproval(request)
	if a == nil {
		return " for a credential"
	}
	return fmt.Sprintf(" to approve %s(%s)", a.Tool, formatMap(a.Args))
}

func formatMap(m map[string]any) string {
	return turn.TruncateText(template.String(turn.EmptyIfNil(m)))
}
