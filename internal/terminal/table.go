package terminal

import (
	"cmp"
	"io"
	"strings"
)

// A Table prints rows in aligned columns. Where the terminal is too narrow, it shortens cells, and
// prints the rows as records if that is not enough and the columns have titles. Without a terminal it
// shortens nothing.
type Table struct {
	columns []Column
	rows    [][]Cell
}

// A Column is a table's column.
type Column struct {
	// Title is printed above the cells, if any column has a title.
	Title string
	// Right aligns numbers.
	Right bool
	// Whole keeps the cells whole, for what a person copies, such as IDs.
	Whole bool
	// Min is what the column keeps when it is shortened; 0 means 8.
	Min int
}

// A Cell is text with its role. The text may be from outside.
type Cell struct {
	Text string
	Role Role
}

// minCellWidth is the default for Min.
const minCellWidth = 8

// NewTable returns a table without rows.
func NewTable(columns ...Column) *Table { return &Table{columns: columns} }

// AddRow adds a row with one text for each column; missing ones are empty.
func (t *Table) AddRow(texts ...string) {
	cells := make([]Cell, len(texts))
	for i, text := range texts {
		cells[i].Text = text
	}
	t.AddCells(cells...)
}

// AddCells adds a row with one cell for each column; missing ones are empty.
func (t *Table) AddCells(cells ...Cell) {
	row := make([]Cell, len(t.columns))
	for i := range min(len(cells), len(row)) {
		row[i] = Cell{CleanLine(cells[i].Text), cells[i].Role}
	}
	t.rows = append(t.rows, row)
}

// Print prints the table with the stream's width and styles. A table without rows has its titles.
func (t *Table) Print(w io.Writer) error {
	return Print(w, t.Format(WidthOf(w), StylesOf(w)))
}

// Format returns the table for width columns; 0 means no limit.
func (t *Table) Format(width int, styles Styles) string {
	rows := t.rows
	titles := make([]Cell, len(t.columns))
	hasTitles := false
	for i, c := range t.columns {
		titles[i] = Cell{CleanLine(c.Title), Title}
		hasTitles = hasTitles || c.Title != ""
	}
	if hasTitles {
		rows = append([][]Cell{titles}, rows...)
	}
	widths := make([]int, len(t.columns))
	for _, row := range rows {
		for i, c := range row {
			widths[i] = max(widths[i], TextWidth(c.Text))
		}
	}
	if !t.fitWidths(widths, width) && hasTitles {
		return t.formatRecords(titles, width, styles)
	}
	var b strings.Builder
	for _, row := range rows {
		last := len(row) - 1
		for last > 0 && row[last].Text == "" {
			last-- // no spaces at the end of the line
		}
		for i, c := range row[:last+1] {
			text := Truncate(c.Text, widths[i])
			padding := strings.Repeat(" ", max(widths[i]-TextWidth(text), 0))
			switch {
			case t.columns[i].Right:
				b.WriteString(padding + styles.wrapLook(roleLooks[c.Role], text))
			case i == last:
				b.WriteString(styles.wrapLook(roleLooks[c.Role], text))
			default:
				b.WriteString(styles.wrapLook(roleLooks[c.Role], text) + padding)
			}
			if i < last {
				b.WriteString("  ")
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// fitWidths shrinks the widest columns that may be shortened, one column at a time. It reports
// whether all columns fit.
func (t *Table) fitWidths(widths []int, width int) bool {
	excess := sumInts(widths) + 2*(len(widths)-1) - width
	for width > 0 && excess > 0 {
		widest := -1
		for i, w := range widths {
			if !t.columns[i].Whole && w > t.minWidth(i) && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return false
		}
		// Down to the second widest at once, because cells can have megabytes.
		next := t.minWidth(widest)
		for i, w := range widths {
			if i != widest && !t.columns[i].Whole && w < widths[widest] {
				next = max(next, w)
			}
		}
		step := max(min(widths[widest]-next, excess), 1)
		widths[widest] -= step
		excess -= step
	}
	return true
}

func (t *Table) minWidth(column int) int { return cmp.Or(t.columns[column].Min, minCellWidth) }

// formatRecords returns each row as lines with a title and a cell.
func (t *Table) formatRecords(titles []Cell, width int, styles Styles) string {
	column := 0
	for _, title := range titles {
		column = max(column, TextWidth(title.Text))
	}
	var b strings.Builder
	for i, row := range t.rows {
		if i > 0 {
			b.WriteByte('\n')
		}
		for j, c := range row {
			if c.Text == "" {
				continue
			}
			label := titles[j].Text + strings.Repeat(" ", column-TextWidth(titles[j].Text))
			text := c.Text
			b.WriteString(styles.wrapLook(bold, label) + "  ")
			if !t.columns[j].Whole {
				text = Truncate(text, max(width-column-2, minCellWidth))
			}
			b.WriteString(styles.wrapLook(roleLooks[c.Role], text) + "\n")
		}
	}
	return b.String()
}
