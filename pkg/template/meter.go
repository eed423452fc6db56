package template

import (
	"context"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"
)

// BudgetName is the variable that holds an evaluation's [*Budget]. No expression can name it.
const BudgetName = "the budget"

// A budget's default limits: enough for some dozen evaluations that each reach their own limits,
// and for thousands of small ones.
const (
	DefaultBudgetMemory = 128 << 20
	DefaultBudgetTime   = 10 * time.Second
)

// A Budget limits the memory and time of many evaluations together, such as those in one turn: each
// evaluation has its own limits, but nothing limits how many there are. An evaluation that starts
// after the budget is exhausted fails. A Budget is safe for concurrent use; evaluations in progress
// may exceed it by the limits of one evaluation each. A nil Budget has no limit.
type Budget struct {
	memory, time         int64 // limits: bytes and nanoseconds
	usedMemory, usedTime atomic.Int64
	slots                Slots
}

// NewBudget returns a budget with memory bytes and limit as total evaluation time.
func NewBudget(memory int64, limit time.Duration) *Budget {
	b := &Budget{}
	b.SetLimits(memory, limit)
	return b
}

// SetLimits sets the limits of a new budget, for one that is part of another value.
func (b *Budget) SetLimits(memory int64, limit time.Duration) {
	b.memory, b.time = memory, int64(limit)
}

// WithSlots makes the budget's large evaluations wait for a slot, and returns b.
func (b *Budget) WithSlots(slots Slots) *Budget {
	b.slots = slots
	return b
}

// Slots limit the number of large evaluations in progress, such as those in all turns on a host:
// each may use some megabytes. An evaluation acquires a slot after 4096 steps and releases it at
// its end. Waiting for a slot does not count as evaluation time. Slots are safe for concurrent use.
// Nil means no limit.
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
		return &Error{Msg: fmt.Sprintf("this turn's expressions together exceed the limit of %d MiB", b.memory>>20)}
	case b.usedTime.Load() > b.time:
		return &Error{Msg: fmt.Sprintf("this turn's expressions together exceed the limit of %s", time.Duration(b.time))}
	}
	return nil
}

// chargeEvaluation charges an evaluation's steps, strings, result and time.
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

// The limits for one expression and for one evaluation.
const (
	maxSource = 16 << 10               // bytes in an expression; bounds the parser's recursion
	maxNodes  = 500                    // syntax nodes in an expression
	maxSteps  = 1 << 18                // loop iterations and equivalent work
	maxValues = 1 << 18                // list and map elements that are built
	maxText   = 64 << 10               // bytes in one string that is built
	maxTexts  = 4 << 20                // bytes in all strings that are built
	maxDepth  = 200                    // nesting of lists and maps
	maxTime   = 100 * time.Millisecond // for one evaluation

	stepsPerCheck = 64   // steps between two clock checks
	largeSteps    = 4096 // steps after which an evaluation is large
)

// A meter counts the work of one evaluation. The virtual machine checks neither
// the context nor the size of strings, so every operation that can be expensive
// charges the meter first.
type meter struct {
	done      <-chan struct{}
	deadline  time.Time
	steps     int
	nextCheck int // the step count at the next clock check
	textBytes int
	limitErr  error // why countIteration returned false

	cancelled bool

	slots     Slots // nil: a large evaluation needs none
	holdsSlot bool
}

func (m *meter) startMeter(ctx context.Context, budget *Budget) {
	*m = meter{done: ctx.Done(), deadline: time.Now().Add(maxTime), nextCheck: stepsPerCheck}
	if budget != nil {
		m.slots = budget.slots
	}
}

// spendSteps counts n steps, and fails at the step and time limits.
func (m *meter) spendSteps(n int) error {
	m.steps += n
	if m.steps > maxSteps {
		return &Error{Msg: "the expression exceeds the limit of 262144 steps"}
	}
	if m.steps < m.nextCheck {
		return nil
	}
	m.nextCheck = m.steps + stepsPerCheck
	if m.steps >= largeSteps && m.slots != nil && !m.holdsSlot {
		if err := m.acquireSlot(); err != nil {
			return err
		}
	}
	return m.checkTime()
}

// acquireSlot waits for a slot. The wait does not count as evaluation time.
func (m *meter) acquireSlot() error {
	began := time.Now()
	select {
	case m.slots <- struct{}{}:
	case <-m.done:
		m.cancelled = true
		return &Error{Msg: "the evaluation was cancelled"}
	}
	m.holdsSlot = true
	m.deadline = m.deadline.Add(time.Since(began))
	return nil
}

func (m *meter) releaseSlot() {
	if m.holdsSlot {
		<-m.slots
		m.holdsSlot = false
	}
}

// countIteration counts one step, and reports whether it is within the limits.
func (m *meter) countIteration() bool {
	m.limitErr = m.spendSteps(1)
	return m.limitErr == nil
}

func (m *meter) checkTime() error {
	select {
	case <-m.done:
		m.cancelled = true
		return &Error{Msg: "the evaluation was cancelled"}
	default:
	}
	if time.Now().After(m.deadline) {
		return &Error{Msg: "the expression exceeds the time limit of " + maxTime.String()}
	}
	return nil
}

// chargeText charges for a string with n bytes that is about to be built.
func (m *meter) chargeText(n int) error {
	if n < 0 || n > maxText {
		return &Error{Msg: "the expression builds a string over the limit of 64 KiB"}
	}
	m.textBytes += n
	if m.textBytes > maxTexts {
		return &Error{Msg: "the expression's strings exceed the limit of 4 MiB"}
	}
	return m.spendSteps(1 + n/1024)
}

// chargeValues charges for a traversal of the values.
func (m *meter) chargeValues(values ...any) error {
	for _, v := range values {
		n := printSize(v, maxDepth)
		if n > maxPrintSize {
			return &Error{Msg: "the expression builds a value that is too large or too deeply nested"}
		}
		if err := m.spendSteps(n / 64); err != nil {
			return err
		}
	}
	return nil
}

// normalizeResult copies a result into JSON types: nil, bool, string, int64,
// float64, json.Number, []any, map[string]any.
func normalizeResult(v any, m *meter) (any, error) {
	if scalar, ok, err := normalizeScalar(v); ok {
		return scalar, err
	}
	if err := m.chargeValues(v); err != nil {
		return nil, err
	}
	return copyValue(v)
}

// maxPrintSize limits what one operation may traverse. Lists that repeatedly
// contain the same list twice are small in memory but take exponential time.
const maxPrintSize = 4 << 20

// printSize estimates how many bytes a value prints to. It stops counting after maxPrintSize, and
// returns more than that for a value nested deeper than depth.
func printSize(v any, depth int) int {
	switch v := v.(type) {
	case string:
		return len(v) + 2
	case []any:
		return printSizeOfList(v, depth-1)
	case map[string]any:
		return printSizeOfMap(v, depth-1)
	case nil, bool, int, int64, float64:
		return 8
	default:
		return printSizeOfOther(reflect.ValueOf(v), depth-1)
	}
}

func printSizeOfList(list []any, depth int) int {
	total := 2
	for _, v := range list {
		if total += printSize(v, depth); depth < 0 || total > maxPrintSize {
			return maxPrintSize + 1
		}
	}
	return total
}

func printSizeOfMap(m map[string]any, depth int) int {
	total := 2
	for k, v := range m {
		if total += len(k) + 4 + printSize(v, depth); depth < 0 || total > maxPrintSize {
			return maxPrintSize + 1
		}
	}
	return total
}

// printSizeOfOther estimates lists and maps with other element types, which functions may return.
func printSizeOfOther(v reflect.Value, depth int) int {
	total := 8
	switch v.Kind() {
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if total += printSize(v.Index(i).Interface(), depth); depth < 0 || total > maxPrintSize {
				return maxPrintSize + 1
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			total += printSize(it.Key().Interface(), depth) + printSize(it.Value().Interface(), depth)
			if depth < 0 || total > maxPrintSize {
				return maxPrintSize + 1
			}
		}
	case reflect.String:
		total += v.Len()
	}
	return total
}
