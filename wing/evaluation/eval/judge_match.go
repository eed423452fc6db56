package eval

import (
	"context"
	"regexp"
	"strings"
)

// measureFinalResponseMatch judges each final text by the expected one.
func measureFinalResponseMatch(ctx context.Context, in *Input) (*Scores, error) {
	p, err := openPanel(ctx, in)
	if err != nil {
		return nil, err
	}
	s := &Scores{Judge: p.name}
	s.Turns = p.eachTurn(len(in.Actual), func(i int) *TurnScore {
		return p.judgeByVote(ctx, promptFinalResponseMatch(in, i), in.Threshold, readMatchAnswer)
	})
	s.setOverall(meanOf(scoresOf(s.Turns)), in.Threshold)
	return s, nil
}

func promptFinalResponseMatch(in *Input, i int) string {
	expected := in.Expected[i]
	return fillPrompt(finalResponseMatchPrompt,
		"prompt", textOf(expected.UserContent),
		"response", answerOf(in.Actual[i], in.Criterion.WithIntermediate),
		"reference", answerOf(expected, in.Criterion.WithIntermediate))
}

const finalResponseMatchPrompt = `You rate the answer of an AI agent strictly. Decide whether the agent's answer is valid, given a reference answer that you trust.

Rules:
- The format of the answer is free unless the user requested one.
- Abbreviations and other formats of the same number are equal. Units must be correct.
- More information than the reference has is acceptable.
- Trust the reference more than your own calculation or your own reading of a table.
- If the reference answers the question, an answer that it cannot be answered is invalid.
- Accept sensible rounding.
- In tables, compare only the key entities.

{
  "User prompt": {{prompt}},
  "Agent response": {{response}},
  "Reference response": {{reference}},
}

Answer with one JSON object with two keys, in this order: "reasoning", your reasons step by step, and "is_the_agent_response_valid", which is "valid" or "invalid".`

var (
	validKey   = regexp.MustCompile(`"is_the_agent_response_valid":\s*\[*[\n\s]*"*([^"^\]\s]*)"*[\n\s]*\]*\s*[,\n}]`)
	invalidKey = regexp.MustCompile(`"is_the_agent_response_invalid":\s*\[*[\n\s]*"*([^"^\]\s]*)"*[\n\s]*\]*\s*[,\n}]`)
)

// readMatchAnswer reads the verdict as ADK does: the answer need not be valid JSON.
func readMatchAnswer(answer string) *float64 {
	if m := validKey.FindStringSubmatch(answer); m != nil {
		switch strings.TrimRight(m[1], ",}") {
		case "valid", "true":
			return scoreOf(true)
		case "invalid", "false", "almost", "partially_valid", "partially":
			return scoreOf(false)
		}
		return nil
	}
	if m := invalidKey.FindStringSubmatch(answer); m != nil {
		label := strings.TrimRight(m[1], ",}")
		return scoreOf(label != "true" && label != "invalid")
	}
	return nil
}
