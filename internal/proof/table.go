package main

import (
	"context"
	"io"
	"strings"
)

// A topic shows some promises. Its error is one of the topic itself: what it
// should show is then not known.
type proof struct {
	name string
	run  func(ctx context.Context, l *lab) ([]row, error)
}

// A row is a line of the table.
type row struct {
	promised, shown string
	ok              bool
}

type table struct{ rows []row }

// runProof makes a topic. One that breaks off leaves a row that says why.
func (t *table) runProof(ctx context.Context, l *lab, p proof) {
	rows, err := p.run(ctx, l)
	t.rows = append(t.rows, rows...)
	if err != nil {
		t.rows = append(t.rows, row{p.name, "broke off: " + err.Error(), false})
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
	lines := [][]string{{"what is promised", "what was shown", "ok"}}
	for _, r := range t.rows {
		lines = append(lines, []string{r.promised, strings.ReplaceAll(r.shown, "\n", " "), map[bool]string{true: "yes", false: "NO"}[r.ok]})
	}
	return printGrid(w, lines)
}
