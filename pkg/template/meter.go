package template

import (
	"context"
	"time"
)

// The limits of one expression and of one evaluation.
const (
	maxSource = 16 << 10               // bytes of an expression; bounds the parser's recursion
	maxNodes  = 500                    // parts of an expression
	maxSteps  = 1 << 18                // loop rounds and the like
	maxValues = 1 << 18                // elements of lists and maps that are built
	maxText   = 64 << 10               // bytes of one text that is built
	maxTexts  = 4 << 20                // bytes of all texts that are built
	maxDepth  = 200                    // lists in lists
	maxTime   = 100 * time.Millisecond // for one evaluation

	stepsPerCheck = 64 // steps between two looks at the clock
)

// A meter counts what one evaluation uses up. The virtual machine stops
// neither for a context nor for long texts, so every operation that can cost
// much asks the meter first.
type meter struct {
	done      <-chan struct{}
	deadline  time.Time
	steps     int
	nextCheck int // the step count of the next look at the clock
	textBytes int
	limitErr  error // why tick refused

	cancelled bool
}

func (m *meter) startMeter(ctx context.Context) {
	*m = meter{done: ctx.Done(), deadline: time.Now().Add(maxTime), nextCheck: stepsPerCheck}
}

// spendSteps takes n steps.
func (m *meter) spendSteps(n int) error {
	m.steps += n
	if m.steps > maxSteps {
		return &Error{Msg: "the expression takes too many steps"}
	}
	if m.steps < m.nextCheck {
		return nil
	}
	m.nextCheck = m.steps + stepsPerCheck
	return m.checkTime()
}

// countIteration takes one step, and reports whether there was one.
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
		return &Error{Msg: "the expression takes longer than " + maxTime.String()}
	}
	return nil
}

// chargeText takes a text of n bytes that is about to be built.
func (m *meter) chargeText(n int) error {
	if n < 0 || n > maxText {
		return &Error{Msg: "the expression builds a text of more than 64 KiB"}
	}
	m.textBytes += n
	if m.textBytes > maxTexts {
		return &Error{Msg: "the expression builds more than 4 MiB of text"}
	}
	return m.spendSteps(1 + n/1024)
}

// chargeValues takes a look at every part of the values.
func (m *meter) chargeValues(values ...any) error {
	for _, v := range values {
		n := printSize(v, maxDepth)
		if n > maxPrintSize {
			return &Error{Msg: "the expression builds a value that is too large or too deep"}
		}
		if err := m.spendSteps(n / 64); err != nil {
			return err
		}
	}
	return nil
}
