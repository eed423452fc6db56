package evalrun

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"

	"agenthost/wing/evaluation/eval"
)

// caseAnswers are the cached answers for one run of a case. Several samples for a prompt have
// an entry each, by run number and sample number. Answers are stored when the case has been
// scored, without those that the metrics could not read. It is safe for concurrent use.
type caseAnswers struct {
	cache *AnswerCache
	// settings has model fingerprints; a model without one is not cached.
	settings map[string]string
	run      int

	mu sync.Mutex
	// uses are the samples in use by prompt; false after a failed request.
	uses map[string][]bool
	used []*usedAnswer
}

// A usedAnswer is an answer that a metric got.
type usedAnswer struct {
	key, prompt, answer string
	stored, rejected    bool
}

// reserveSample returns the number for a prompt's next sample.
func (a *caseAnswers) reserveSample(prompt string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, inUse := range a.uses[prompt] {
		if !inUse {
			a.uses[prompt][i] = true
			return i
		}
	}
	a.uses[prompt] = append(a.uses[prompt], true)
	return len(a.uses[prompt]) - 1
}

// releaseSample returns the number for a sample whose request failed.
func (a *caseAnswers) releaseSample(prompt string, sample int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.uses[prompt][sample] = false
}

func (a *caseAnswers) addUsed(u *usedAnswer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used = append(a.used, u)
}

// rejectAnswer marks an answer that a metric could not read.
func (a *caseAnswers) rejectAnswer(prompt, answer string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, u := range a.used {
		if u.prompt == prompt && u.answer == answer {
			u.rejected = true
		}
	}
}

// commitAnswers stores the new answers, and deletes stored ones that could not be read. It
// accepts nil.
func (a *caseAnswers) commitAnswers() {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, u := range a.used {
		switch {
		case u.stored && u.rejected:
			a.cache.deleteAnswer(u.key)
		case !u.stored && !u.rejected:
			a.cache.putAnswer(u.key, u.answer)
		}
	}
}

// A cachedJudge returns cached answers, and requests the others.
type cachedJudge struct {
	*judge
	answers *caseAnswers
	// settings are the model's fingerprint and the judge's config.
	settings string
}

var _ eval.AnswerRejecter = (*cachedJudge)(nil)

// Answer returns the cached answer for a prompt's next sample, or requests one.
func (j *cachedJudge) Answer(ctx context.Context, prompt string) (string, error) {
	base := hashStrings(j.settings, prompt)
	sample := j.answers.reserveSample(base)
	key := hashStrings(base, fmt.Sprint(j.answers.run), fmt.Sprint(sample))
	if answer, ok := j.answers.cache.getAnswer(key); ok {
		j.usage.addCached()
		j.answers.addUsed(&usedAnswer{key: key, prompt: base, answer: answer, stored: true})
		return answer, nil
	}
	answer, err := j.judge.Answer(ctx, prompt)
	if err != nil {
		j.answers.releaseSample(base, sample)
		return "", err
	}
	j.answers.addUsed(&usedAnswer{key: key, prompt: base, answer: answer})
	return answer, nil
}

// RejectAnswer removes an answer that a metric could not read; see [eval.AnswerRejecter].
func (j *cachedJudge) RejectAnswer(prompt, answer string) {
	j.answers.rejectAnswer(hashStrings(j.settings, prompt), answer)
}

// hashStrings hashes strings with their lengths.
func hashStrings(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d %s\n", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}
