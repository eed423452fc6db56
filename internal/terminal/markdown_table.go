package terminal

import (
	"slices"
	"strings"

	extast "github.com/yuin/goldmark/extension/ast"
)

// minColumnWidth is what a table column needs. A table without room for its columns is shown as
// records: each row is a list of cells, each after its column's title.
const minColumnWidth = 5

// columnGap separates the cells of a row.
const columnGap = " │ "

// renderTable renders a table whose cells wrap in their columns.
func (r *renderer) renderTable(table *extast.Table, width int) []line {
	var rows [][][]span
	for n := table.FirstChild(); n != nil; n = n.NextSibling() {
		var cells [][]span
		look := look(0)
		if len(rows) == 0 {
			look = bold
		}
		for c := n.FirstChild(); c != nil && len(cells) < len(table.Alignments); c = c.NextSibling() {
			cells = append(cells, r.inlineSpans(nil, c, look))
		}
		for len(cells) < len(table.Alignments) {
			cells = append(cells, nil)
		}
		rows = append(rows, cells)
	}
	columns := len(table.Alignments)
	if columns == 0 || len(rows) == 0 {
		return nil
	}
	widths := make([]int, columns)
	for _, cells := range rows {
		for i, c := range cells {
			for _, l := range wrapSpans(c, 0) {
				widths[i] = max(widths[i], l.countColumns(), 1)
			}
		}
	}
	gaps := (columns - 1) * TextWidth(columnGap)
	if width > 0 && columns*minColumnWidth+gaps > width && sumInts(widths)+gaps > width {
		return renderRecords(rows, width)
	}
	if width > 0 {
		shrinkColumns(widths, width-gaps)
	}
	var lines []line
	for i, cells := range rows {
		lines = append(lines, renderRow(cells, widths, table.Alignments)...)
		if i == 0 {
			var rule []string
			for _, w := range widths {
				rule = append(rule, strings.Repeat("─", w))
			}
			lines = append(lines, line{{strings.Join(rule, "─┼─"), faint}})
		}
	}
	return lines
}

// shrinkColumns takes columns from the widest ones until all fit, but leaves minColumnWidth.
func shrinkColumns(widths []int, available int) {
	for excess := sumInts(widths) - available; excess > 0; {
		widest := slices.Max(widths)
		if widest <= minColumnWidth {
			return
		}
		// All columns with the largest width shrink to the next smaller one together.
		next, count := minColumnWidth, 0
		for _, w := range widths {
			if w == widest {
				count++
			} else {
				next = max(next, w)
			}
		}
		step := max(min(widest-next, excess/count), 1)
		for i, w := range widths {
			if w == widest && excess > 0 {
				widths[i] -= step
				excess -= step
			}
		}
	}
}

func sumInts(numbers []int) int {
	sum := 0
	for _, n := range numbers {
		sum += n
	}
	return sum
}

// renderRow renders a row, which has the lines of its highest cell.
func renderRow(cells [][]span, widths []int, alignments []extast.Alignment) []line {
	wrapped, height := make([][]line, len(cells)), 1
	for i, c := range cells {
		wrapped[i] = wrapSpans(c, widths[i])
		height = max(height, len(wrapped[i]))
	}
	lines := make([]line, height)
	for y := range lines {
		for i := range cells {
			if i > 0 {
				lines[y] = append(lines[y], span{columnGap, faint})
			}
			var cell line
			if y < len(wrapped[i]) {
				cell = wrapped[i][y]
			}
			room := max(widths[i]-cell.countColumns(), 0)
			left := 0
			switch alignments[i] {
			case extast.AlignRight:
				left = room
			case extast.AlignCenter:
				left = room / 2
			}
			lines[y] = append(lines[y], span{strings.Repeat(" ", left), 0})
			lines[y] = append(lines[y], cell...)
			lines[y] = append(lines[y], span{strings.Repeat(" ", room-left), 0})
		}
	}
	return lines
}

// renderRecords renders rows as records, with an empty line between two.
func renderRecords(rows [][][]span, width int) []line {
	titles := rows[0]
	var lines []line
	for i, cells := range rows[1:] {
		if i > 0 {
			lines = append(lines, nil)
		}
		for j, c := range cells {
			spans := append(slices.Clone(titles[j]), span{": ", bold})
			lines = append(lines, wrapSpans(append(spans, c...), width)...)
		}
	}
	if len(rows) == 1 {
		for _, title := range titles {
			lines = append(lines, wrapSpans(title, width)...)
		}
	}
	return lines
}
