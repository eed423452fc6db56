package terminal

import (
	"bytes"
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	sessions := func() *Table {
		table := NewTable(Column{Title: "session", Whole: true}, Column{Title: "events", Right: true}, Column{Title: "title"})
		table.AddRow("7bfb3213-7910", "12", "Where is my order? It should have arrived\nyesterday")
		table.AddRow("a", "1234", "日本語\x1b[2J \u202e")
		return table
	}
	for _, c := range []struct {
		name  string
		table *Table
		width int
		want  string
	}{
		{"no limit", sessions(), 0, `
session        events  title
7bfb3213-7910      12  Where is my order? It should have arrived yesterday
a                1234  日本語 \u202e
`},
		{"40 columns", sessions(), 40, `
session        events  title
7bfb3213-7910      12  Where is my orde…
a                1234  日本語 \u202e
`},
		{"too narrow for the columns", sessions(), 30, `
session  7bfb3213-7910
events   12
title    Where is my order? I…

session  a
events   1234
title    日本語 \u202e
`},
		{"no titles", func() *Table {
			table := NewTable(Column{}, Column{}, Column{})
			table.AddRow("ok", "a")
			table.AddRow("failed", "b", "reason")
			return table
		}(), 40, `
ok      a
failed  b  reason
`},
		{"no titles, too narrow", func() *Table {
			table := NewTable(Column{Whole: true}, Column{Whole: true})
			table.AddRow("database", "sqlite:///data/agenthost.db")
			table.AddRow("size", "88 KiB")
			return table
		}(), 20, `
database  sqlite:///data/agenthost.db
size      88 KiB
`},
		{"no rows", NewTable(Column{Title: "a"}), 40, "\na\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := "\n" + c.table.Format(c.width, NewStyles(false)); got != c.want {
				t.Errorf("table:%s\nwant:%s", got, c.want)
			}
		})
	}
}

// A table takes its width and its styles from the stream.
func TestTablePrint(t *testing.T) {
	table := NewTable(Column{Title: "app"}, Column{Title: "state"})
	table.AddCells(Cell{Text: "hello\x1b[0m world again"}, Cell{"failed", Bad})
	for _, c := range []struct {
		name     string
		settings Settings
		want     string
	}{
		{"terminal", Settings{Terminal: true, Styles: true, Width: 20}, "\x1b[1mapp\x1b[0m           \x1b[1mstate\x1b[0m\nhello world…  \x1b[31mfailed\x1b[0m\n"},
		{"pipe", Settings{}, "app                state\nhello world again  failed\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			if err := table.Print(NewOutput(&out, c.settings)); err != nil {
				t.Fatal(err)
			}
			if got := out.String(); got != c.want {
				t.Errorf("printed %q, want %q", got, c.want)
			}
		})
	}
}

// Cells of any length shrink in a few steps.
func TestTableLongCells(t *testing.T) {
	table := NewTable(Column{}, Column{}, Column{})
	table.AddRow(strings.Repeat("a", 1<<20), strings.Repeat("b", 1<<19), "c")
	for l := range strings.Lines(table.Format(80, NewStyles(false))) {
		if columns := TextWidth(strings.TrimSuffix(l, "\n")); columns > 80 {
			t.Errorf("a line has %d columns, want at most 80", columns)
		}
	}
}
