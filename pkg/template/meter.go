package template

import (
	"context"
	"time"
)

// The limits of one expression and of one evaluation.
const (
	maxSource = 16 << 10               // bytes of an expression; bounds the parser's recursion
	maxNodes  = 500                    // syntax nodes of an expression
	maxSteps  = 1 << 18                // loop iterations and equivalent work
	maxValues = 1 << 18                // elements of lists and maps that are built
	maxText   = 64 << 10               // bytes of one string that is built
	maxTexts  = 4 << 20                // bytes of all strings that are built
	maxDepth  = 200                    // nesting of lists and maps
	maxTime   = 100 * time.Millisecond // for one evaluation

	stepsPerCheck = 64   // steps between two checks of the clock
	largeSteps    = 4096 // steps after which an evaluation is large
)

// A meter counts the work of one evaluation. The virtual machine checks neither
// the context nor the size of strings, so every operation that can be expensive
// charges the meter first.
type meter struct {
	done      <-chan struct{}
	deadline  time.Time
	steps     int
	nextCheck int // the step count of the next check of the clock
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

// spendSteps counts n steps, and fails at the limits of steps and time.
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

// chargeText charges for a string of n bytes that is about to be built.
func (m *meter) chargeText(n int) error {
	if n < 0 || n > maxText {
		return &Error{Msg: "the expression builds a string over the limit of 64 KiB"}
	}
	m.textBytes += n
	if m.textBytes > maxTexts {
		return &Error{Msg: "the strings of the expression exceed the limit of 4 MiB"}
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
