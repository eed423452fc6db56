package eval

import (
	"context"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/adkjson"
)

// measureHallucinations splits each response into sentences, and judges whether the context
// supports each one. It requests one sample for each text.
func measureHallucinations(ctx context.Context, in *Input) (*Scores, error) {
	p, err := openPanel(ctx, in)
	if err != nil {
		return nil, err
	}
	s := &Scores{Judge: p.name}
	s.Turns = p.eachTurn(len(in.Actual), func(i int) *TurnScore {
		return p.judgeSupport(ctx, in.Actual[i], in.Criterion.CheckIntermediate, in.Threshold)
	})
	s.setOverall(meanOf(scoresOf(s.Turns)), in.Threshold)
	return s, nil
}

// A claim is text to check, and what the agent had when it wrote it.
type claim struct{ text, context string }

// listClaims returns the texts to check in a turn: the final one, and before it the events'
// texts if they are checked.
func listClaims(inv *Invocation, withIntermediate bool) []claim {
	head := describeContext(inv)
	var steps []string
	var claims []claim
	context := func() string { return strings.Join(append([]string{head}, steps...), "\n") }
	if d := inv.Intermediate; d != nil {
		for _, e := range d.Events {
			if withIntermediate && e.Content != nil {
				for _, p := range e.Content.Parts {
					if p.Text != "" {
						claims = append(claims, claim{p.Text, context()})
					}
				}
			}
			if step := describeStep(e.Content); step != "" {
				steps = append(steps, step)
			}
		}
	}
	if text := textOf(inv.FinalResponse); text != "" {
		claims = append(claims, claim{text, context()})
	}
	return claims
}

func describeContext(inv *Invocation) string {
	var instructions []string
	for _, a := range agentsOf([]*Invocation{inv}) {
		if a.Instructions != "" {
			instructions = append(instructions, a.Name+":\n"+a.Instructions)
		}
	}
	return "Developer instructions:\n" + strings.Join(instructions, "\n\n") +
		"\nUser prompt:\n" + textOf(inv.UserContent) +
		"\nTool definitions:\n" + describeTools(inv.App)
}

// describeStep returns an event's texts, calls and responses.
func describeStep(c *genai.Content) string {
	if c == nil {
		return ""
	}
	var lines []string
	if text := textOf(c); text != "" {
		lines = append(lines, text)
	}
	var calls []*genai.FunctionCall
	var responses []*genai.FunctionResponse
	for _, p := range c.Parts {
		if p.FunctionCall != nil {
			calls = append(calls, p.FunctionCall)
		}
		if p.FunctionResponse != nil {
			responses = append(responses, p.FunctionResponse)
		}
	}
	if len(calls) > 0 {
		lines = append(lines, "tool_calls:", formatJSON(func(w *adkjson.Encoder) { w.WriteTyped(reflect.ValueOf(calls)) }))
	}
	if len(responses) > 0 {
		lines = append(lines, "tool_outputs:", formatJSON(func(w *adkjson.Encoder) { w.WriteTyped(reflect.ValueOf(responses)) }))
	}
	return strings.Join(lines, "\n")
}

// judgeSupport judges all texts in a turn. The score is the mean over those that have one.
func (p *panel) judgeSupport(ctx context.Context, inv *Invocation, withIntermediate bool, threshold float64) *TurnScore {
	t := &TurnScore{}
	var scores []*float64
	var reasons []string
	for _, c := range listClaims(inv, withIntermediate) {
		score, reason, unread := p.judgeClaim(ctx, c)
		scores = append(scores, score)
		if reason != "" {
			reasons = append(reasons, reason)
		}
		if unread != "" {
			t.Answer = limitText(unread)
		}
	}
	if len(scores) == 0 {
		reasons = append(reasons, "the turn has no text to check")
	}
	t.Score = meanOf(scores)
	t.Status = StatusOf(t.Score, threshold)
	t.Reason = limitText(strings.Join(reasons, "\n\n"))
	return t
}

// judgeClaim returns a claim's score with the judge's reasons, or an answer without verdicts.
func (p *panel) judgeClaim(ctx context.Context, c claim) (score *float64, reason, unread string) {
	prompt := fillPrompt(segmentPrompt, "text", c.text)
	answer, err := p.requestAnswer(ctx, prompt)
	if err != nil {
		return nil, err.Error(), ""
	}
	sentences := readSentences(answer)
	if len(sentences) == 0 {
		p.rejectAnswer(prompt, answer)
		return nil, "the judge found no sentences", answer
	}
	tagged := make([]string, len(sentences))
	for i, s := range sentences {
		tagged[i] = "<sentence>" + s + "</sentence>"
	}
	prompt = fillPrompt(validatePrompt, "context", c.context, "sentences", strings.Join(tagged, "\n"))
	answer, err = p.requestAnswer(ctx, prompt)
	if err != nil {
		return nil, err.Error(), ""
	}
	var labels []string
	for _, b := range readSupport(answer) {
		labels = append(labels, b.Label)
	}
	if score = scoreLabels(labels); score == nil {
		p.rejectAnswer(prompt, answer)
		return nil, "the answer of the judge has no verdict", answer
	}
	return score, answer, ""
}

const segmentPrompt = `Split the text into sentences. Do not change any character. An item of a list or a row of a table is a sentence. Write each sentence as <sentence>…</sentence>, and nothing else.

Text:
{{text}}`

const validatePrompt = `You check an answer for hallucinations. For each sentence, decide from the context alone whether it is true.

Labels:
- supported: the context contains or implies the sentence.
- unsupported: the context neither implies nor contradicts it.
- contradictory: the context contradicts it.
- disputed: the context both supports and contradicts it.
- not_applicable: it states no fact that needs support, such as a greeting, a question or an offer.

For each sentence in order, write five lines, each with its name, and an empty line after them:
sentence: the sentence, unchanged
label: one of the labels
rationale: why
supporting_excerpt: the text of the context that supports it, or null
contradicting_excerpt: the text of the context that contradicts it, or null

Context:
{{context}}

Sentences:
{{sentences}}`

var sentenceTag = regexp.MustCompile(`(?s)<sentence>(.*?)</sentence>`)

func readSentences(answer string) []string {
	var sentences []string
	for _, m := range sentenceTag.FindAllStringSubmatch(answer, -1) {
		sentences = append(sentences, m[1])
	}
	return sentences
}

// A supportVerdict is the block in the answer about one sentence.
type supportVerdict struct {
	Sentence, Label, Rationale string
	// Supporting and Contradicting are empty for null.
	Supporting, Contradicting string
}

var supportLabel = regexp.MustCompile(`(?im)^[ \t]*(sentence|label|rationale|supporting_excerpt|contradicting_excerpt):`)

// readSupport reads the blocks in an answer that have all five values in order. A value
// continues until the next label.
func readSupport(answer string) []*supportVerdict {
	order := []string{"sentence", "label", "rationale", "supporting_excerpt", "contradicting_excerpt"}
	labels := supportLabel.FindAllStringSubmatchIndex(answer, -1)
	var found []*supportVerdict
	var names, values []string
	for i, m := range labels {
		end := len(answer)
		if i+1 < len(labels) {
			end = labels[i+1][0]
		}
		name := strings.ToLower(answer[m[2]:m[3]])
		if name == "sentence" {
			names, values = nil, nil
		}
		names, values = append(names, name), append(values, strings.TrimSpace(answer[m[1]:end]))
		if slices.Equal(names, order) {
			found = append(found, &supportVerdict{values[0], values[1], values[2], dropNull(values[3]), dropNull(values[4])})
		}
	}
	return found
}

func dropNull(s string) string {
	if strings.EqualFold(s, "null") {
		return ""
	}
	return s
}

// scoreLabels returns the share of sentences that are supported or need no support.
func scoreLabels(labels []string) *float64 {
	var scores []*float64
	for _, l := range labels {
		switch strings.ToLower(strings.TrimSpace(l)) {
		case "supported", "not_applicable":
			scores = append(scores, scoreOf(true))
		case "unsupported", "contradictory", "disputed":
			scores = append(scores, scoreOf(false))
		}
	}
	return meanOf(scores)
}
