package main

import (
	"context"
	"io"
	"strings"
)

// A proof checks some promises. It returns an error if it cannot run to its end.
type proof struct {
	name string
	run  func(ctx context.Context, l *lab) ([]row, error)
}

// A row is a promise and its result.
type row struct {
	promised, shown string
	ok              bool
}

type table struct{ rows []row }

// runProof runs a proof and adds its rows. An error becomes a failed row.
func (t *table) runProof(ctx context.Context, l *lab, p proof) {
	rows, err := p.run(ctx, l)
	t.rows = append(t.rows, rows...)
	if err != nil {
		t.rows = append(t.rows, row{p.name, "aborted: " + err.Error(), false})
	}
}

func (t *table) ok() bool {
	for _, r := range t.rows {
		if !r.ok {
			return false
		}
	}
	return true
}

// print writes the table as Markdown.
func (t *table) print(w io.Writer) error {
	lines := [][]string{{"promise", "result", "ok"}}
	for _, r := range t.rows {
		lines = append(lines, []string{r.promised, strings.ReplaceAll(r.shown, "\n", " "), map[bool]string{true: "yes", false: "NO"}[r.ok]})
	}
	return printGrid(w, lines)
}
