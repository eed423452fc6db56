package eval

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// effectiveRubrics returns the criterion's rubrics, and the turn's rubrics that have the
// metric's type.
func effectiveRubrics(in *Input, turn *Invocation, kind string) ([]*Rubric, error) {
	var all []*Rubric
	seen := map[string]bool{}
	add := func(r *Rubric) error {
		if seen[r.ID] {
			return fmt.Errorf("rubric %q appears more than once", r.ID)
		}
		seen[r.ID] = true
		all = append(all, r)
		return nil
	}
	for _, r := range in.Criterion.Rubrics {
		if err := add(r); err != nil {
			return nil, err
		}
	}
	for _, r := range turn.Rubrics {
		if r.Type != kind {
			continue
		}
		if err := add(r); err != nil {
			return nil, err
		}
	}
	if len(all) == 0 {
		return nil, errors.New("rubrics are required")
	}
	return all, nil
}

// A rubricVerdict is a block in a judge's answer.
type rubricVerdict struct {
	ID        string // empty if the block has none
	Property  string
	Rationale string
	Score     *float64
}

var (
	propertyLine  = regexp.MustCompile(`(?m)^[ \t]*(ID|Property): (.*)$`)
	rationaleText = regexp.MustCompile(`Rationale: (.*)`)
	verdictText   = regexp.MustCompile(`Verdict: (.*)`)
)

// readRubricAnswer reads the blocks in an answer. If a property, rationale or verdict is
// missing, it is not clear which belong together, and there are no verdicts.
func readRubricAnswer(answer string) []*rubricVerdict {
	var found []*rubricVerdict
	id := ""
	for _, m := range propertyLine.FindAllStringSubmatch(answer, -1) {
		value := strings.TrimSpace(m[2])
		if m[1] == "ID" {
			id = value
			continue
		}
		found = append(found, &rubricVerdict{ID: id, Property: value})
		id = ""
	}
	rationales := rationaleText.FindAllStringSubmatch(answer, -1)
	verdicts := verdictText.FindAllStringSubmatch(answer, -1)
	if len(rationales) != len(found) || len(verdicts) != len(found) {
		return nil
	}
	for i, v := range found {
		v.Rationale = strings.TrimSpace(rationales[i][1])
		v.Score = readVerdict(verdicts[i][1])
	}
	return found
}

func readVerdict(text string) *float64 {
	text = strings.ToLower(text)
	switch {
	case strings.Contains(text, "yes"):
		return scoreOf(true)
	case strings.Contains(text, "no"):
		return scoreOf(false)
	}
	return nil
}

// normalizeProperty returns a property's text without what models change when they repeat it:
// quotes, dashes, white space, markup and case.
func normalizeProperty(text string) string {
	text = norm.NFKC.String(text)
	text = strings.NewReplacer("“", `"`, "”", `"`, "‘", "'", "’", "'", "–", "-", "—", "-").Replace(text)
	text = strings.Join(strings.Fields(text), " ")
	return lowerFully(strings.Trim(text, " *_`#>-•\"'"))
}

// scoreRubrics returns a sample's verdicts by their rubric. Verdicts about unknown rubrics
// are dropped.
func scoreRubrics(answer string, rubrics []*Rubric) []*RubricScore {
	var scores []*RubricScore
	for _, v := range readRubricAnswer(answer) {
		if r := findRubric(rubrics, v); r != nil {
			scores = append(scores, &RubricScore{RubricID: r.ID, Rationale: v.Rationale, Score: v.Score})
		}
	}
	return scores
}

func findRubric(rubrics []*Rubric, v *rubricVerdict) *Rubric {
	for _, r := range rubrics {
		if v.ID != "" && r.ID == v.ID {
			return r
		}
	}
	property := normalizeProperty(v.Property)
	for _, r := range rubrics {
		if normalizeProperty(r.Text()) == property {
			return r
		}
	}
	return nil
}

// mergeRubricSamples returns the majority's score for each rubric, and their mean.
func mergeRubricSamples(samples [][]*RubricScore) ([]*RubricScore, *float64) {
	byID, order := groupRubricScores(samples)
	var merged []*RubricScore
	var values []*float64
	for _, id := range order {
		scores := make([]*float64, len(byID[id]))
		for i, s := range byID[id] {
			scores[i] = s.Score
		}
		best := byID[id][chooseSample(scores)]
		merged = append(merged, best)
		values = append(values, best.Score)
	}
	return merged, meanOf(values)
}

func groupRubricScores(lists [][]*RubricScore) (byID map[string][]*RubricScore, order []string) {
	byID = map[string][]*RubricScore{}
	for _, list := range lists {
		for _, s := range list {
			if byID[s.RubricID] == nil {
				order = append(order, s.RubricID)
			}
			byID[s.RubricID] = append(byID[s.RubricID], s)
		}
	}
	return byID, order
}

// averageRubrics returns the mean over all rubric scores in all turns, and the mean for each
// rubric. Turns with more rubrics count more, as in ADK.
func averageRubrics(turns [][]*RubricScore) (overall *float64, means []*RubricScore) {
	byID, order := groupRubricScores(turns)
	var all []*float64
	for _, id := range order {
		var scores []*float64
		for _, s := range byID[id] {
			scores = append(scores, s.Score)
		}
		all = append(all, scores...)
		if mean := meanOf(scores); mean != nil {
			means = append(means, &RubricScore{RubricID: id, Rationale: "Mean over all turns.", Score: mean})
		}
	}
	return meanOf(all), means
}

// judgeRubrics judges a turn by rubrics.
func (p *panel) judgeRubrics(ctx context.Context, prompt string, rubrics []*Rubric, threshold float64) *TurnScore {
	answers, err := p.collectSamples(ctx, prompt)
	if err != nil {
		return &TurnScore{Status: NotEvaluated, Reason: err.Error()}
	}
	samples := make([][]*RubricScore, len(answers))
	for i, a := range answers {
		samples[i] = scoreRubrics(a, rubrics)
		if slices.ContainsFunc(samples[i], func(s *RubricScore) bool { return s.Score == nil }) {
			p.rejectAnswer(prompt, a)
		}
	}
	t := &TurnScore{}
	t.Rubrics, t.Score = mergeRubricSamples(samples)
	if t.Status = StatusOf(t.Score, threshold); t.Score == nil {
		t.Reason, t.Answer = "the answer of the judge has no verdict", limitText(answers[0])
	}
	return t
}

func (s *Scores) setRubrics(threshold float64) {
	lists := make([][]*RubricScore, len(s.Turns))
	for i, t := range s.Turns {
		lists[i] = t.Rubrics
	}
	overall, means := averageRubrics(lists)
	s.Rubrics = means
	s.setOverall(overall, threshold)
}

func measureFinalResponseRubrics(ctx context.Context, in *Input) (*Scores, error) {
	return measureTurnRubrics(ctx, in, TypeFinalResponse, promptFinalResponseRubrics)
}

func measureToolUseRubrics(ctx context.Context, in *Input) (*Scores, error) {
	return measureTurnRubrics(ctx, in, TypeToolUse, promptToolUseRubrics)
}

func measureTurnRubrics(ctx context.Context, in *Input, kind string, prompt func(in *Input, i int, rubrics []*Rubric) string) (*Scores, error) {
	rubrics := make([][]*Rubric, len(in.Actual))
	for i, turn := range in.Actual {
		var err error
		if rubrics[i], err = effectiveRubrics(in, turn, kind); err != nil {
			return nil, err
		}
	}
	p, err := openPanel(ctx, in)
	if err != nil {
		return nil, err
	}
	s := &Scores{Judge: p.name}
	s.Turns = p.eachTurn(len(in.Actual), func(i int) *TurnScore {
		return p.judgeRubrics(ctx, prompt(in, i, rubrics[i]), rubrics[i], in.Threshold)
	})
	s.setRubrics(in.Threshold)
	return s, nil
}

// measureTrajectoryRubrics judges the whole conversation once, on its last turn.
func measureTrajectoryRubrics(ctx context.Context, in *Input) (*Scores, error) {
	if len(in.Actual) == 0 {
		return nil, errors.New("the conversation has no turns")
	}
	last := len(in.Actual) - 1
	rubrics, err := effectiveRubrics(in, in.Actual[last], TypeTrajectory)
	if err != nil {
		return nil, err
	}
	p, err := openPanel(ctx, in)
	if err != nil {
		return nil, err
	}
	s := &Scores{Judge: p.name}
	for range last {
		s.Turns = append(s.Turns, &TurnScore{Status: NotEvaluated})
	}
	s.Turns = append(s.Turns, p.judgeRubrics(ctx, promptTrajectoryRubrics(in, rubrics), rubrics, in.Threshold))
	s.setRubrics(in.Threshold)
	return s, nil
}
