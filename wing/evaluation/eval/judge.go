package eval

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"

	"agenthost/internal/safe"
)

// A Judge answers a prompt. It may be called concurrently. It retries errors that may be
// temporary itself: an error ends the turn.
type Judge interface {
	Answer(ctx context.Context, prompt string) (string, error)
}

// An AnswerRejecter is a judge that is notified when a metric cannot read an answer, such as
// a judge with a cache. It may be called concurrently.
type AnswerRejecter interface{ RejectAnswer(prompt, answer string) }

// Judges opens the judge that options select; options is never nil, its model never
// empty.
type Judges func(ctx context.Context, o *JudgeOptions) (Judge, error)

// A panel requests a metric's samples.
type panel struct {
	judge   Judge
	name    string
	samples int
	// slots limits the requests at once, over all turns.
	slots chan struct{}
}

// openPanel opens a criterion's judge.
func openPanel(ctx context.Context, in *Input) (*panel, error) {
	var o JudgeOptions
	if in.Criterion.Judge != nil {
		o = *in.Criterion.Judge
	}
	o.Model = cmp.Or(o.Model, DefaultJudgeModel)
	if in.Judges == nil {
		return nil, fmt.Errorf("judge %s is not available", o.Model)
	}
	j, err := in.Judges(ctx, &o)
	if err != nil {
		return nil, fmt.Errorf("opening judge %s: %w", o.Model, err)
	}
	p := &panel{judge: j, name: o.Model, samples: defaultSamples}
	parallel := 1
	if o.Samples != nil {
		p.samples = min(max(*o.Samples, 1), maxSamples)
	}
	if o.Parallel != nil {
		parallel = min(max(*o.Parallel, 1), maxParallel)
	}
	p.slots = make(chan struct{}, parallel)
	return p, nil
}

// eachTurn calls judge for all turns concurrently, and waits. Requests are limited by the
// panel, not by the turns.
func (p *panel) eachTurn(n int, judge func(i int) *TurnScore) []*TurnScore {
	turns := make([]*TurnScore, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			defer safe.Recover(func(p *safe.Panic) {
				turns[i] = &TurnScore{Status: NotEvaluated, Reason: p.Error()}
			})
			turns[i] = judge(i)
		})
	}
	wg.Wait()
	return turns
}

// collectSamples requests all samples for a prompt. If one fails, the turn has none.
func (p *panel) collectSamples(ctx context.Context, prompt string) ([]string, error) {
	answers, errs := make([]string, p.samples), make([]error, p.samples)
	var wg sync.WaitGroup
	for i := range p.samples {
		wg.Go(func() {
			defer safe.Recover(func(p *safe.Panic) { errs[i] = p })
			answers[i], errs[i] = p.requestAnswer(ctx, prompt)
		})
	}
	wg.Wait()
	return answers, cmp.Or(errs...)
}

// requestAnswer requests one answer.
func (p *panel) requestAnswer(ctx context.Context, prompt string) (string, error) {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
		return p.judge.Answer(ctx, prompt)
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// rejectUnread reports a prompt's answers without a score to the judge.
func (p *panel) rejectUnread(prompt string, answers []string, scores []*float64) {
	for i, a := range answers {
		if scores[i] == nil {
			p.rejectAnswer(prompt, a)
		}
	}
}

func (p *panel) rejectAnswer(prompt, answer string) {
	if r, ok := p.judge.(AnswerRejecter); ok {
		r.RejectAnswer(prompt, answer)
	}
}

// chooseSample returns the index of the sample that represents the majority: the first
// positive one if more samples are positive than negative, else the first negative one.
// Samples without a score do not vote; if none votes, it is the first sample.
func chooseSample(scores []*float64) int {
	positives, negatives, firstPositive, firstNegative := 0, 0, -1, -1
	for i, s := range scores {
		switch {
		case s == nil:
		case *s == 1:
			if positives++; firstPositive < 0 {
				firstPositive = i
			}
		default:
			if negatives++; firstNegative < 0 {
				firstNegative = i
			}
		}
	}
	switch {
	case positives > negatives:
		return firstPositive
	case negatives > 0:
		return firstNegative
	default:
		return 0
	}
}

// judgeByVote requests samples for a prompt, reads a score from each, and returns the
// majority's score with its answer as the reason.
func (p *panel) judgeByVote(ctx context.Context, prompt string, threshold float64, read func(answer string) *float64) *TurnScore {
	answers, err := p.collectSamples(ctx, prompt)
	if err != nil {
		return &TurnScore{Status: NotEvaluated, Reason: err.Error()}
	}
	scores := make([]*float64, len(answers))
	for i, a := range answers {
		scores[i] = read(a)
	}
	p.rejectUnread(prompt, answers, scores)
	chosen := chooseSample(scores)
	t := &TurnScore{Score: scores[chosen], Status: StatusOf(scores[chosen], threshold)}
	if t.Score == nil {
		t.Reason, t.Answer = "the answer of the judge has no verdict", limitText(answers[chosen])
	} else {
		t.Reason = limitText(answers[chosen])
	}
	return t
}

// maxNote limits the length of an answer in a note.
const maxNote = 16 << 10

func limitText(s string) string {
	if len(s) <= maxNote {
		return s
	}
	return strings.ToValidUTF8(s[:maxNote], "") + "…"
}

func scoreOf(positive bool) *float64 {
	score := 0.0
	if positive {
		score = 1
	}
	return &score
}

// scoresOf returns one score per turn.
func scoresOf(turns []*TurnScore) []*float64 {
	scores := make([]*float64, len(turns))
	for i, t := range turns {
		scores[i] = t.Score
	}
	return scores
}
