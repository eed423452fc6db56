package apptest

import (
	"fmt"

	"google.golang.org/genai"

	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/template"
)

// heard are the lines of what the user said or decided.
func heard(c *genai.Content) []string {
	var lines []string
	for _, p := range c.Parts {
		switch {
		case p.FunctionResponse != nil:
			lines = append(lines, fmt.Sprintf("  user ← %s %s", p.FunctionResponse.Name, line(p.FunctionResponse.Response)))
		case p.Text != "":
			lines = append(lines, "  user: "+shorten(p.Text))
		default:
			lines = append(lines, "  user: (a file)")
		}
	}
	return lines
}

// said are the lines of what agents and tools said and did.
func said(o *outcome) []string {
	var lines []string
	failed := ""
	for _, ev := range o.events {
		failed = ev.ErrorCode
		if ev.Content != nil {
			for _, p := range ev.Content.Parts {
				lines = append(lines, saidIn(ev, p)...)
			}
		}
		if delta := ev.Actions.StateDelta; len(delta) > 0 {
			lines = append(lines, fmt.Sprintf("  %s sets %s", ev.Author, line(delta)))
		}
		if ev.ErrorCode != "" {
			lines = append(lines, fmt.Sprintf("  %s ! %s %s", ev.Author, ev.ErrorCode, shorten(ev.ErrorMessage)))
		}
	}
	if o.err != nil && o.err.Code != failed {
		lines = append(lines, fmt.Sprintf("  ! %s %s", o.err.Code, shorten(told(o.err).Error())))
	}
	return lines
}

// saidIn is the line of a part of an event, if it has one.
func saidIn(ev *session.Event, p *genai.Part) []string {
	switch {
	case p.FunctionCall != nil && runtime.IsRequest(ev, p.FunctionCall):
		return []string{fmt.Sprintf("  %s asks the user%s", ev.Author, about(p.FunctionCall))}
	case p.FunctionCall != nil:
		return []string{fmt.Sprintf("  %s → %s(%s)", ev.Author, p.FunctionCall.Name, line(p.FunctionCall.Args))}
	case p.FunctionResponse != nil:
		return []string{fmt.Sprintf("  %s ← %s", p.FunctionResponse.Name, line(p.FunctionResponse.Response))}
	case p.Text != "" && !p.Thought:
		return []string{fmt.Sprintf("  %s: %s", ev.Author, shorten(p.Text))}
	}
	return nil
}

// about is what a person is asked: to approve a call, or for a credential.
func about(request *genai.FunctionCall) string {
	call, ok := request.Args["originalFunctionCall"].(map[string]any)
	if !ok {
		return " for a credential"
	}
	args, _ := call["args"].(map[string]any)
	return fmt.Sprintf(" to approve %s(%s)", call["name"], line(args))
}

func line(m map[string]any) string { return shorten(template.String(orEmpty(m))) }
