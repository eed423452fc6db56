package runtime

import (
	"errors"
	"sync"
	"sync/atomic"

	"agenthost/pkg/model"
)

var errBudget = errors.New("no model calls left")

// callBudget counts the model calls, their cost and tool calls in an invocation, including those that
// agents called as tools make.
type callBudget struct {
	limit int
	used  atomic.Int64
	// maxCost is the cost limit in US dollars; 0 is none.
	maxCost float64
	mu      sync.Mutex
	cost    float64
	// toolLimit limits the models' tool calls; 0 is none. hasRefused reports that a model has read that
	// it is reached.
	toolLimit  int
	toolCalls  int
	hasRefused bool
}

// reserveToolCalls takes n tool calls from the budget, and returns how many of them may be executed.
// isRepeated reports that none may, and that a model has read it before.
func (b *callBudget) reserveToolCalls(n int) (allowed int, isRepeated bool) {
	if b.toolLimit == 0 || n == 0 {
		return n, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	allowed = min(n, max(0, b.toolLimit-b.toolCalls))
	b.toolCalls += allowed
	isRepeated = b.hasRefused && allowed == 0
	b.hasRefused = b.hasRefused || allowed < n
	return allowed, isRepeated
}

func (b *callBudget) setLimits(c *RunConfig) { b.limit, b.maxCost = c.MaxLLMCalls, c.MaxCost }

func (b *callBudget) usedCalls() int { return int(b.used.Load()) }

// spendCall takes one call from the budget. It fails when a limit is reached; a limit of
// zero or less is none.
func (b *callBudget) spendCall() error {
	if used := b.used.Add(1); b.limit > 0 && used > int64(b.limit) {
		return failf(CodeLLMCallsLimit, errBudget, "Max number of llm calls limit of `%d` exceeded", b.limit)
	}
	if b.maxCost <= 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cost >= b.maxCost {
		return failf(CodeCostLimit, errBudget, "the cost of the run, $%.6g, has reached the limit of $%.6g (run_config: max_cost)", b.cost, b.maxCost)
	}
	return nil
}

// addCost adds a response's cost, and fails when the limit is reached.
func (b *callBudget) addCost(resp *model.Response) error {
	usd, ok := model.CostOf(resp)
	if !ok || b.maxCost <= 0 {
		return nil
	}
	b.mu.Lock()
	b.cost += usd
	cost := b.cost
	b.mu.Unlock()
	if cost < b.maxCost {
		return nil
	}
	return failf(CodeCostLimit, errBudget, "the cost of the run, $%.6g, has reached the limit of $%.6g (run_config: max_cost)", cost, b.maxCost)
}

// countCost returns a function that adds the cost of each response before it calls yield.
func (b *callBudget) countCost(yield responseFunc) responseFunc {
	return func(resp *model.Response, err error) bool {
		if usd, ok := model.CostOf(resp); ok {
			b.mu.Lock()
			b.cost += usd
			b.mu.Unlock()
		}
		return yield(resp, err)
	}
}
