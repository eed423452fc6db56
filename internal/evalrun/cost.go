package evalrun

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"agenthost/pkg/model"
)

// A CostError is the error of a run that reached its limit of cost.
type CostError struct{ Limit float64 }

// Error names the limit.
func (e *CostError) Error() string {
	return fmt.Sprintf("the cost limit of %g US dollars was reached", e.Limit)
}

// A CostMeter adds up the cost of calls by models with a price, and rejects calls once a
// limit is reached. Calls that are running then end, so their cost is added as well.
type CostMeter struct {
	// Limit is in US dollars; 0 disables it.
	Limit float64
	// OnLimit is called once when the limit is reached; nil is allowed.
	OnLimit func(*CostError)

	mu      sync.Mutex
	spent   float64
	reached bool
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

// meteredKey marks the context of a call that the meter counts.
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
		if err := m.meter.checkLimit(); err != nil {
			yield(nil, err)
			return
		}
		m.LLM.Generate(ctx, req)(func(resp *model.Response, err error) bool {
			if usd, ok := model.CostOf(resp); ok && err == nil {
				m.meter.addCost(usd)
			}
			return yield(resp, err)
		})
	}
}

func (m *CostMeter) checkLimit() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reached {
		return &CostError{m.Limit}
	}
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
