package template

import (
	"fmt"
	"sync/atomic"
	"time"
)

// BudgetName is the variable that holds the [*Budget] of an evaluation. No
// expression can name it.
const BudgetName = "the budget"

// The defaults of a budget: some dozen evaluations that each reach the limits of
// one, and any number of small ones.
const (
	DefaultBudgetMemory = 128 << 20
	DefaultBudgetTime   = 10 * time.Second
)

// A Budget is what many evaluations may use up together, such as those of one
// turn: each by itself is bounded, their number is not. An evaluation that begins
// when the budget is used up is refused. Many goroutines may share one; those
// that have begun may exceed it by what one evaluation may use. Nil is no limit.
type Budget struct {
	memory, time         int64 // limits: bytes and nanoseconds
	usedMemory, usedTime atomic.Int64
}

// NewBudget makes a budget of bytes built and of time taken.
func NewBudget(memory int64, limit time.Duration) *Budget {
	return &Budget{memory: memory, time: int64(limit)}
}

// The price of one step in bytes: most steps build an element of a list.
const bytesPerStep = 32

// checkLimits refuses an evaluation when the budget is used up.
func (b *Budget) checkLimits() error {
	switch {
	case b == nil:
	case b.usedMemory.Load() > b.memory:
		return &Error{Msg: fmt.Sprintf("the expressions of this turn exceed the limit of %d MiB together", b.memory>>20)}
	case b.usedTime.Load() > b.time:
		return &Error{Msg: fmt.Sprintf("the expressions of this turn exceed the limit of %s together", time.Duration(b.time))}
	}
	return nil
}

// chargeEvaluation takes what an evaluation has used: steps and texts, its result, and its
// time.
func (b *Budget) chargeEvaluation(m *meter, result any) {
	if b == nil {
		return
	}
	used := int64(m.textBytes) + bytesPerStep*int64(m.steps)
	switch result := result.(type) {
	case nil, bool, int64, float64:
	case string:
		used += int64(len(result))
	default:
		used += int64(printSize(result, maxDepth))
	}
	b.usedMemory.Add(used)
	b.usedTime.Add(int64(time.Since(m.deadline.Add(-maxTime))))
}

// Text takes a text that was filled, or refuses it when the budget is used up.
func (b *Budget) Text(text string) error {
	if b == nil {
		return nil
	}
	b.usedMemory.Add(int64(len(text)))
	return b.checkLimits()
}
