package template

import (
	"fmt"
	"sync/atomic"
	"time"
)

// BudgetName is the variable that holds the [*Budget] of an evaluation. No
// expression can name it.
const BudgetName = "the budget"

// The default limits of a budget: enough for some dozen evaluations that each
// reach the limits of one evaluation, and for thousands of small ones.
const (
	DefaultBudgetMemory = 128 << 20
	DefaultBudgetTime   = 10 * time.Second
)

// A Budget limits the memory and time of many evaluations together, such as those
// of one turn: each evaluation has limits of its own, but their number has none.
// An evaluation that starts after the budget is exhausted fails. A Budget is safe
// for concurrent use; evaluations in progress may exceed it by the limits of one
// evaluation each. A nil Budget has no limit.
type Budget struct {
	memory, time         int64 // limits: bytes and nanoseconds
	usedMemory, usedTime atomic.Int64
	slots                Slots
}

// NewBudget returns a budget of memory bytes and of limit as total evaluation time.
func NewBudget(memory int64, limit time.Duration) *Budget {
	return &Budget{memory: memory, time: int64(limit)}
}

// WithSlots makes the large evaluations of the budget wait for a slot, and returns b.
func (b *Budget) WithSlots(slots Slots) *Budget {
	b.slots = slots
	return b
}

// Slots limit the number of large evaluations in progress, such as those of all turns of
// a host: each may use some megabytes. An evaluation acquires a slot after 4096 steps
// and releases it at its end. Waiting for a slot does not count as evaluation time.
// Slots are safe for concurrent use. Nil means no limit.
type Slots chan struct{}

// NewSlots returns n slots.
func NewSlots(n int) Slots { return make(Slots, n) }

// bytesPerStep is the memory charged for a step: most steps build a list element.
const bytesPerStep = 32

// checkLimits returns an error when the budget is exhausted.
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

// chargeEvaluation charges the steps, strings, result and time of an evaluation.
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

// Text charges the budget for a rendered text, and returns an error when the
// budget is exhausted.
func (b *Budget) Text(text string) error {
	if b == nil {
		return nil
	}
	b.usedMemory.Add(int64(len(text)))
	return b.checkLimits()
}
