package eval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/genai"
)

// measureUserSimulator judges each message from the simulated user, and whether it ended the
// conversation at the right time.
func measureUserSimulator(ctx context.Context, in *Input) (*Scores, error) {
	if in.Scenario == nil {
		return nil, errors.New("the case has no scenario")
	}
	p, err := openPanel(ctx, in)
	if err != nil {
		return nil, err
	}
	s := &Scores{Judge: p.name}
	n := len(in.Actual)
	// The proxy turn is the stop signal, judged as the message after the last one.
	stop := &Invocation{
		ID:          "stop_signal_proxy_invocation",
		UserContent: genai.NewContentFromText(cmp.Or(in.Criterion.StopSignal, DefaultStopSignal), genai.RoleUser),
	}
	turns := p.eachTurn(n+1, func(i int) *TurnScore {
		switch {
		case i == n:
			return p.judgeMessage(ctx, in, stop, in.Actual)
		case i == 0:
			same := strings.TrimSpace(textOf(in.Actual[0].UserContent)) == strings.TrimSpace(in.Scenario.StartingPrompt)
			score := scoreOf(same)
			return &TurnScore{Score: score, Status: StatusOf(score, in.Threshold)}
		default:
			return p.judgeMessage(ctx, in, in.Actual[i], in.Actual[:i])
		}
	})
	s.Turns = turns[:n]
	if n > 0 && turns[n].Status == Failed {
		s.Turns[n-1] = turns[n]
	}
	s.setOverall(sharePassed(s.Turns), in.Threshold)
	return s, nil
}

// sharePassed returns the scores of passed turns, divided by the number of turns, including
// those without a score.
func sharePassed(turns []*TurnScore) *float64 {
	if len(turns) == 0 {
		return nil
	}
	sum := 0.0
	for _, t := range turns {
		if t.Status == Passed {
			sum += *t.Score
		}
	}
	sum /= float64(len(turns))
	return &sum
}

func (p *panel) judgeMessage(ctx context.Context, in *Input, turn *Invocation, before []*Invocation) *TurnScore {
	return p.judgeByVote(ctx, promptUserSimulator(in.Scenario, turn, before), in.Threshold, readSimulatorAnswer)
}

func promptUserSimulator(s *Scenario, turn *Invocation, before []*Invocation) string {
	criteria, persona := defaultSimulatorCriteria, ""
	if s.Persona != nil {
		criteria = listBehaviors(s.Persona)
		persona = "\n# Persona Description\n" + s.Persona.Description + "\n"
	}
	return fillPrompt(userSimulatorPrompt,
		"criteria", criteria,
		"plan", s.Plan,
		"history", listHistory(before),
		"persona", persona,
		"response", textOf(turn.UserContent))
}

func listBehaviors(p *Persona) string {
	var b strings.Builder
	for _, behavior := range p.Behaviors {
		if behavior == nil {
			continue
		}
		fmt.Fprintf(&b, "%s: %s It is violated if:\n", behavior.Name, behavior.Description)
		for _, v := range behavior.Violations {
			fmt.Fprintf(&b, "  - %s\n", v)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func listHistory(turns []*Invocation) string {
	var lines []string
	for _, inv := range turns {
		lines = append(lines, "user: "+textOf(inv.UserContent))
		if c := inv.FinalResponse; c != nil {
			lines = append(lines, cmp.Or(c.Role, genai.RoleModel)+": "+textOf(c))
		}
	}
	return strings.Join(lines, "\n\n")
}

const defaultSimulatorCriteria = `CONVERSATION_PLAN_FOLLOWED: the message follows the next step of the plan.
STOP_CONDITION_FOLLOWED: the conversation ends when the plan is complete or cannot continue, not before or later.
USER_GOAL_ORIENTED: the message pursues the goals of the plan.
LIMITED_TROUBLESHOOTING: the user does not debug the agent; it retries a failed step once at most.
RESPONSIVENESS: the message answers the agent's questions from the plan.
CORRECTS_AGENT: the message corrects an agent that contradicts the plan.
CONVERSATIONAL_TONE: the message is written as a person writes.`

const userSimulatorPrompt = `You rate a simulated user that talks to an AI agent. A conversation plan describes the goals of the user. The conversation history contains the messages so far. The generated user response is the next message of the simulated user. Its text "</finished>", or another stop signal, ends the conversation.

The response is valid if it violates none of these criteria:
{{criteria}}

Answer with one JSON object: {"criteria": [{"name": "the name of the criterion", "reasoning": "why", "passes": true or false}, …], "is_valid": true or false}

# Conversation Plan
{{plan}}

# Conversation History
{{history}}
{{persona}}
# Generated User Response
{{response}}`

var isValidKey = regexp.MustCompile(`"is_valid":\s*\[*[\n\s]*"*([^"^\]]*)"*[\n\s]*\]*\s*[,\n}]`)

// readSimulatorAnswer reads the verdict as ADK does: the answer need not be valid JSON.
func readSimulatorAnswer(answer string) *float64 {
	m := isValidKey.FindStringSubmatch(answer)
	if m == nil {
		return nil
	}
	label := strings.ToLower(strings.TrimSpace(strings.TrimRight(strings.TrimSpace(m[1]), "},\n\t ")))
	switch {
	case label == "valid", label == "true":
		return scoreOf(true)
	case slices.Contains([]string{"invalid", "false", "almost", "partially_valid", "partially valid", "partially"}, label):
		return scoreOf(false)
	}
	return nil
}
