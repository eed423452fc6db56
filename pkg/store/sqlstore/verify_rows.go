package sqlstore

import (
	"runtime"

	"agenthost/internal/safe"
)

// A batch of rows has at most maxCheckRows of them, and ends after the row with which it has maxCheckBytes.
const (
	maxCheckRows  = 256
	maxCheckBytes = 1 << 20
)

// A rowChecker checks rows on all processors while the next ones are read, and reports their problems in the
// order of the rows. At most two batches for each processor are in memory. It is for one goroutine.
type rowChecker[T any] struct {
	// check returns a row's problem, or "". Many goroutines call it.
	check func(row *T) string
	// report gets each problem.
	report func(row *T, problem string)
	next   *checkBatch[T]
	// started are the batches in progress.
	started []*checkBatch[T]
}

type checkBatch[T any] struct {
	rows  []T
	bytes int
	// problems and panicked are set before done is closed.
	problems map[int]string
	panicked *safe.Panic
	done     chan struct{}
}

// addRow adds a row, of which the checker keeps bytes. The error is a panic in a check.
func (c *rowChecker[T]) addRow(row T, bytes int) error {
	if c.next == nil {
		c.next = &checkBatch[T]{rows: make([]T, 0, maxCheckRows), problems: map[int]string{}, done: make(chan struct{})}
	}
	c.next.rows = append(c.next.rows, row)
	c.next.bytes += bytes
	if len(c.next.rows) < maxCheckRows && c.next.bytes < maxCheckBytes {
		return nil
	}
	return c.startBatch()
}

// startBatch starts the check of the rows since the last batch.
func (c *rowChecker[T]) startBatch() error {
	b := c.next
	c.next = nil
	c.started = append(c.started, b)
	go func() {
		defer safe.Recover(func(p *safe.Panic) {
			b.panicked = p
			close(b.done)
		})
		for i := range b.rows {
			if problem := c.check(&b.rows[i]); problem != "" {
				b.problems[i] = problem
			}
		}
		close(b.done)
	}()
	if len(c.started) < 2*runtime.GOMAXPROCS(0) {
		return nil
	}
	return c.finishBatch()
}

// finishBatch reports the first started batch.
func (c *rowChecker[T]) finishBatch() error {
	b := c.started[0]
	c.started = c.started[1:]
	<-b.done
	if b.panicked != nil {
		return b.panicked
	}
	if len(b.problems) == 0 {
		return nil
	}
	for i := range b.rows {
		if problem := b.problems[i]; problem != "" {
			c.report(&b.rows[i], problem)
		}
	}
	return nil
}

// finishRows reports all rows that were added.
func (c *rowChecker[T]) finishRows() error {
	var err error
	if c.next != nil {
		err = c.startBatch()
	}
	for len(c.started) > 0 {
		if failed := c.finishBatch(); err == nil {
			err = failed
		}
	}
	return err
}
