package statistics

import "math"

// Two tests decide while a new revision serves some sessions. Both may look after every session:
// looking often does not raise the false alarm rate above alpha, as it would with a test for a fixed
// number. A yes/no outcome is all that they use, such as whether a turn failed.
//
//   - A Ceiling compares one rate with a limit. It needs no other revision, so that it decides after
//     few sessions.
//   - A Comparison compares the rates for two revisions at any traffic share. A fault that both meet,
//     such as a model provider's, is none.
//
// The methods: H. Robbins, Statistical methods related to the law of the iterated logarithm (1970);
// S. Howard et al., arXiv 1810.08240; R. Turner, A. Ly and P. Grünwald, arXiv 2106.02693.

// A Ceiling tests whether a rate is above Limit. With the rate at the limit it is exceeded by chance
// in at most the share Alpha from all rollouts, however long they are. It is a value for one goroutine;
// its JSON form continues it.
type Ceiling struct {
	// Limit is the rate, above 0 and below 1. Alpha is above 0 and below 1.
	Limit float64 `json:"limit"`
	Alpha float64 `json:"alpha"`
	Seen  Counts  `json:"seen"`
}

// Observe adds an outcome.
func (c *Ceiling) Observe(hit bool) {
	c.Seen.addOutcome(hit)
}

// IsExceeded reports whether the rate is above the limit.
func (c *Ceiling) IsExceeded() bool {
	if c.Seen.N == 0 || c.Seen.Hits/c.Seen.N <= c.Limit {
		return false
	}
	hits, misses := c.Seen.Hits, c.Seen.N-c.Seen.Hits
	// The outcomes' likelihood averaged over all rates, divided by that at the limit.
	return logBeta(hits+1, misses+1)-hits*math.Log(c.Limit)-misses*math.Log1p(-c.Limit) >= -math.Log(c.Alpha)
}

// logBeta returns the beta function's logarithm.
func logBeta(a, b float64) float64 {
	x, _ := math.Lgamma(a)
	y, _ := math.Lgamma(b)
	z, _ := math.Lgamma(a + b)
	return x + y - z
}

// A Comparison tests whether a new revision's rate is above the old one's. Without a difference it
// is worse by chance in at most the share Alpha from all rollouts, at any traffic share and over steps.
// Sessions come in the order in which they started. It is a value for one goroutine; its JSON form
// continues it.
type Comparison struct {
	// Alpha is above 0 and below 1.
	Alpha float64 `json:"alpha"`
	// Margin is the least difference between the observed rates; 0 is any.
	Margin float64 `json:"margin"`

	Old Counts `json:"old"`
	New Counts `json:"new"`
	// LogRatio sums up over all sessions the logarithm of an outcome's probability in its arm, divided
	// by that in a random arm. Without a difference the product's expected value is 1.
	LogRatio float64 `json:"logRatio"`
}

// Counts are how many of N outcomes are hits.
type Counts struct {
	N    float64 `json:"n"`
	Hits float64 `json:"hits"`
}

func (a *Counts) addOutcome(hit bool) {
	a.N++
	if hit {
		a.Hits++
	}
}

// pooledWeight is how many sessions with the common rate each arm begins with, so that its first
// sessions are not taken for its rate.
const pooledWeight = 8

// estimateRate returns the arm's rate, never 0 nor 1.
func (a *Counts) estimateRate(pooled float64) float64 {
	return (a.Hits + pooledWeight*pooled) / (a.N + pooledWeight)
}

// Observe adds a session's outcome. share is the probability with which a session was on the new
// revision when this one started, above 0 and below 1; others, such as those that an expression
// selects, are not compared.
func (c *Comparison) Observe(isNew bool, share float64, hit bool) {
	// Only earlier sessions estimate the rates: this is what makes the test exact.
	pooled := (c.Old.Hits + c.New.Hits + 0.5) / (c.Old.N + c.New.N + 1)
	oldRate, newRate := c.Old.estimateRate(pooled), c.New.estimateRate(pooled)
	if newRate > oldRate {
		rate, random := oldRate, share*newRate+(1-share)*oldRate
		if isNew {
			rate = newRate
		}
		if hit {
			c.LogRatio += math.Log(rate / random)
		} else {
			c.LogRatio += math.Log((1 - rate) / (1 - random))
		}
	}
	if isNew {
		c.New.addOutcome(hit)
	} else {
		c.Old.addOutcome(hit)
	}
}

// IsWorse reports whether the new revision's rate is above the old one's, by at least the margin.
func (c *Comparison) IsWorse() bool {
	if c.Old.N == 0 || c.New.N == 0 || c.LogRatio < -math.Log(c.Alpha) {
		return false
	}
	return c.New.Hits/c.New.N-c.Old.Hits/c.Old.N >= c.Margin
}
