package evalrun

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"agenthost/pkg/model"
)

// A CostError reports that a run reached its cost limit.
type CostError struct{ Limit float64 }

// Error names the limit.
func (e *CostError) Error() string {
	return fmt.Sprintf("the cost limit of %g US dollars was reached", e.Limit)
}

// A CallsError reports that a run reached its limit for model calls.
type CallsError struct{ Limit int }

// Error names the limit.
func (e *CallsError) Error() string {
	return fmt.Sprintf("the limit of %d model calls was reached", e.Limit)
}

// A CostMeter counts model calls and adds up the cost if they have a price. It rejects calls
// once a limit is reached. Calls that are running then end, so their cost is added as well.
type CostMeter struct {
	// Limit is in US dollars; 0 disables it.
	Limit float64
	// OnLimit is called once when the limit is reached; nil is allowed.
	OnLimit func(*CostError)
	// CallLimit is the maximum number of calls; 0 disables it.
	CallLimit int
	// OnCallLimit is called for each call beyond the limit; nil is allowed.
	OnCallLimit func(*CallsError)

	mu       sync.Mutex
	calls    int
	spent    float64
	reached  bool
	unpriced string
}

// Unpriced returns the name of a model whose responses had no cost, or "".
func (m *CostMeter) Unpriced() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.unpriced
}

// Calls returns the number of calls so far.
func (m *CostMeter) Calls() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls
}

// Spent returns the cost so far, in US dollars.
func (m *CostMeter) Spent() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.spent
}

// WrapModel returns a model whose calls the meter counts.
func (m *CostMeter) WrapModel(llm model.LLM) model.LLM {
	return &meteredModel{wrappedModel{llm}, m}
}

// meteredKey marks the context in a call that the meter counts.
type meteredKey struct{}

type meteredModel struct {
	wrappedModel
	meter *CostMeter
}

// Generate calls the model once; see [model.LLM].
func (m *meteredModel) Generate(ctx context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	if ctx.Value(meteredKey{}) != nil { // a route calls models that are wrapped, too
		return m.LLM.Generate(ctx, req)
	}
	ctx = context.WithValue(ctx, meteredKey{}, true)
	return func(yield func(*model.Response, error) bool) {
		if err := m.meter.countCall(); err != nil {
			yield(nil, err)
			return
		}
		m.LLM.Generate(ctx, req)(func(resp *model.Response, err error) bool {
			if usd, ok := model.CostOf(resp); ok && err == nil {
				m.meter.addCost(usd)
			} else if err == nil && !resp.Partial {
				m.meter.setUnpriced(m.LLM.Name())
			}
			return yield(resp, err)
		})
	}
}

// countCall counts a call, or returns the error for a limit.
func (m *CostMeter) countCall() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.reached:
		return &CostError{m.Limit}
	case m.CallLimit > 0 && m.calls >= m.CallLimit:
		err := &CallsError{m.CallLimit}
		if m.OnCallLimit != nil {
			m.OnCallLimit(err)
		}
		return err
	}
	m.calls++
	return nil
}

func (m *CostMeter) addCost(usd float64) {
	m.mu.Lock()
	m.spent += usd
	first := m.Limit > 0 && m.spent >= m.Limit && !m.reached
	m.reached = m.reached || first
	m.mu.Unlock()
	if first && m.OnLimit != nil {
		m.OnLimit(&CostError{m.Limit})
	}
}

func (m *CostMeter) setUnpriced(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unpriced = name
}
