package replay

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"sync"

	"agenthost/pkg/loader"
	"agenthost/pkg/model"
)

// Live lets a replay call the app's models. It sends what people wrote to the models' providers again, and
// costs money: a person grants it for one replay.
type Live struct {
	// MaxUSD is the ceiling for the whole replay, above 0. No call begins at or above it, and one call runs at
	// a time, so that the replay exceeds it by one call at most.
	MaxUSD float64
	// Tools are the tools that run when the record has no answer. They have their effects.
	Tools []string
}

// An UnpricedError is the error for models whose calls no ceiling can count.
type UnpricedError struct{ Models []string }

// Error names the models and the way out.
func (e *UnpricedError) Error() string {
	return fmt.Sprintf("a live replay requires the price of each model, and %s has none: add price under models in app.yaml, or pass --prices", strings.Join(e.Models, ", "))
}

// An UnmeasuredError is the error for a model whose answer has no cost, because it does not report its tokens.
type UnmeasuredError struct{ Model string }

// Error names the model and the way out.
func (e *UnmeasuredError) Error() string {
	return fmt.Sprintf("model %s reports no tokens, so no ceiling can count its calls: replay it from the record", e.Model)
}

// A meter adds up what live calls cost. It is safe for concurrent use.
type meter struct {
	limit float64
	// calling has room for one call.
	calling chan struct{}

	mu      sync.Mutex
	spent   float64
	calls   int
	reached bool
	// unmeasured is a model whose answer had no cost.
	unmeasured string
}

func newMeter(limit float64) *meter { return &meter{limit: limit, calling: make(chan struct{}, 1)} }

// isReached reports whether a call was rejected because of the ceiling.
func (m *meter) isReached() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reached
}

// beginCall reports whether a call may begin.
func (m *meter) beginCall() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.spent >= m.limit || m.unmeasured != "" {
		m.reached = true
		return false
	}
	m.calls++
	return true
}

func (m *meter) addCost(usd float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spent += max(0, usd)
}

// endCall ends a call. No call follows one whose cost is not known.
func (m *meter) endCall(name string, unmeasured bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if unmeasured {
		m.unmeasured = name
	}
}

// checkMeasured returns an [UnmeasuredError] if a call had no cost.
func (m *meter) checkMeasured() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unmeasured != "" {
		return &UnmeasuredError{m.unmeasured}
	}
	return nil
}

// wrapModel returns a model whose calls the meter counts.
func (m *meter) wrapModel(llm model.LLM) model.LLM { return &meteredModel{llm, m} }

type meteredModel struct {
	model.LLM
	meter *meter
}

var (
	_ model.ContentCacher = (*meteredModel)(nil)
	_ model.CodeRunner    = (*meteredModel)(nil)
	_ model.SchemaMixer   = (*meteredModel)(nil)
)

// CachesContents reports the model's capability; see [model.CanCache].
func (m *meteredModel) CachesContents() bool { return model.CanCache(m.LLM) }

// RunsCode reports the model's capability; see [model.RunsCode].
func (m *meteredModel) RunsCode() bool { return model.RunsCode(m.LLM) }

// MixesToolsAndSchema reports the model's capability; see [model.CanMixSchema].
func (m *meteredModel) MixesToolsAndSchema() bool { return model.CanMixSchema(m.LLM) }

// meteredKey marks the context in a call that the meter counts.
type meteredKey struct{}

// Generate calls the model if the ceiling is not reached; see [model.LLM]. A route or fallback calls models that
// are wrapped, too: they are a part of its call.
func (m *meteredModel) Generate(ctx context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	if ctx.Value(meteredKey{}) != nil {
		return m.LLM.Generate(ctx, req)
	}
	ctx = context.WithValue(ctx, meteredKey{}, true)
	return func(yield func(*model.Response, error) bool) {
		select {
		case m.meter.calling <- struct{}{}:
			defer func() { <-m.meter.calling }()
		case <-ctx.Done():
			yield(nil, context.Cause(ctx))
			return
		}
		if !m.meter.beginCall() {
			yield(nil, &model.Error{Code: http.StatusTooManyRequests, Status: "RESOURCE_EXHAUSTED", Message: fmt.Sprintf("the replay's ceiling of %g US dollars was reached", m.meter.limit)})
			return
		}
		answered, measured := false, false
		defer func() { m.meter.endCall(m.Name(), answered && !measured) }()
		for resp, err := range m.LLM.Generate(ctx, req) {
			usd, ok := model.CostOf(resp)
			answered, measured = answered || err == nil, measured || ok
			m.meter.addCost(usd)
			if !yield(resp, err) {
				return
			}
		}
	}
}

// isolateLive returns a loader whose apps call their models. Tools are isolated unless one is granted.
func (l *Live) isolateLive(from *loader.Loader, m *meter, blocked *http.Client) *loader.Loader {
	if len(l.Tools) == 0 {
		from = from.IsolateTools(blocked)
	}
	return from.WrapModels(m.wrapModel)
}

// compareLive returns the first difference that a live answer's wording does not explain: texts and written
// values are compared only if nothing else differs.
func compareLive(record, played map[string][]step) *divergence {
	if d := findDivergence(withoutWording(record), withoutWording(played)); d != nil {
		return d
	}
	d := findDivergence(record, played)
	if d != nil {
		d.class = ClassText
	}
	return d
}

// withoutWording returns the steps without texts, and without the values of state keys.
func withoutWording(all map[string][]step) map[string][]step {
	kept := map[string][]step{}
	for branch, steps := range all {
		for _, s := range steps {
			if s.kind == stepState {
				s.value = ""
			}
			if s.kind != stepText {
				kept[branch] = append(kept[branch], s)
			}
		}
	}
	return kept
}
