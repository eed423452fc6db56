package eval

import (
	"math/rand/v2"
	"time"
)

// An Injection replaces the result of a tool call, or makes it fail.
type Injection struct {
	// Probability from 0 to 1; nil for 1.
	Probability *float64 `json:"injectionProbability,omitempty"`
	// MatchArgs are arguments that the call must have.
	MatchArgs map[string]any `json:"matchArgs,omitempty"`
	// Latency is in seconds.
	Latency float64 `json:"injectedLatencySeconds,omitempty"`
	// Seed makes the random choice repeatable.
	Seed *int64 `json:"randomSeed,omitempty"`
	// Exactly one of Error and Response is set.
	Error    *InjectedError `json:"injectedError,omitempty"`
	Response map[string]any `json:"injectedResponse,omitempty"`
}

// An InjectedError is the error of a tool.
type InjectedError struct {
	Code    int    `json:"injectedHttpErrorCode"`
	Message string `json:"errorMessage"`
}

// Inject returns the response of the first injection that applies to a call, and how long
// the call takes. The response is nil if none applies.
func Inject(injections []*Injection, args map[string]any) (response map[string]any, latency time.Duration) {
	for _, in := range injections {
		if !in.appliesTo(args) {
			continue
		}
		latency = time.Duration(in.Latency * float64(time.Second))
		if in.Error != nil {
			return map[string]any{"error_code": int64(in.Error.Code), "error_message": in.Error.Message}, latency
		}
		return in.Response, latency
	}
	return nil, 0
}

func (in *Injection) appliesTo(args map[string]any) bool {
	for name, want := range in.MatchArgs {
		if got, ok := args[name]; !ok || !equalValues(got, want, 0) {
			return false
		}
	}
	if in.Probability == nil || *in.Probability >= 1 {
		return true
	}
	if in.Seed != nil {
		return rand.New(rand.NewPCG(uint64(*in.Seed), 0)).Float64() < *in.Probability
	}
	return rand.Float64() < *in.Probability
}
