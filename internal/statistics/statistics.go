// Package statistics computes intervals for rates and means. Its functions are pure, and safe for
// concurrent use.
package statistics

import "math"

// An Interval contains the true value in 95 % from many samples.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// z95 is the standard normal distribution's quantile at 97.5 %.
const z95 = 1.959963984540054

// RateInterval returns the Wilson score interval for k successes in n independent trials, which is
// right for rates near 0 and for few trials. Without a trial it is 0 to 1.
func RateInterval(k, n int64) Interval {
	if n <= 0 {
		return Interval{0, 1}
	}
	trials := float64(n)
	p := float64(min(max(k, 0), n)) / trials
	z2 := z95 * z95
	center := (p + z2/(2*trials)) / (1 + z2/trials)
	half := z95 / (1 + z2/trials) * math.Sqrt(p*(1-p)/trials+z2/(4*trials*trials))
	return Interval{max(0, center-half), min(1, center+half)}
}

// MeanInterval returns the interval by Student's t-distribution for the mean. n values have this sum,
// and their squares the other. ok is false for fewer than two values, which have none.
func MeanInterval(n int64, sum, squares float64) (i Interval, ok bool) {
	if n < 2 {
		return Interval{}, false
	}
	values := float64(n)
	mean := sum / values
	variance := max(0, (squares-sum*mean)/(values-1)) // rounding may make it negative
	half := tQuantile(n-1) * math.Sqrt(variance/values)
	return Interval{mean - half, mean + half}, true
}

// tQuantile returns Student's quantile at 97.5 %: exact values for up to 6 degrees, then the expansion by
// Cornish and Fisher, which is right to 0.1 %.
func tQuantile(freedom int64) float64 {
	if exact := [...]float64{math.Inf(1), 12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469}; freedom < int64(len(exact)) {
		return exact[max(freedom, 0)]
	}
	const z, z3, z5, z7 = z95, z95 * z95 * z95, z95 * z95 * z95 * z95 * z95, z95 * z95 * z95 * z95 * z95 * z95 * z95
	v := float64(freedom)
	return z + (z3+z)/(4*v) + (5*z5+16*z3+3*z)/(96*v*v) + (3*z7+19*z5+17*z3-15*z)/(384*v*v*v)
}

// McNemar returns the probability of at least so unequal counts of pairs that differ in one direction or
// in the other, if both are equally likely: McNemar's exact two-sided test. Without such a pair it is 1.
func McNemar(b, c int64) float64 {
	n, least := b+c, min(b, c)
	if b < 0 || c < 0 || n == 0 {
		return 1
	}
	sum := 0.0
	for i := range least + 1 {
		choose, _ := math.Lgamma(float64(n + 1))
		above, _ := math.Lgamma(float64(i + 1))
		below, _ := math.Lgamma(float64(n - i + 1))
		sum += math.Exp(choose - above - below - float64(n)*math.Ln2)
	}
	return min(1, 2*sum)
}
