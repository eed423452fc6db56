package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// printGrid writes cell rows as a Markdown table. The first row is the header.
func printGrid(w io.Writer, lines [][]string) error {
	wide := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			wide[i] = max(wide[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for i, line := range lines {
		for j, cell := range line {
			fmt.Fprintf(&b, "| %-*s ", wide[j], cell)
		}
		b.WriteString("|\n")
		if i > 0 {
			continue
		}
		for _, n := range wide {
			b.WriteString("| " + strings.Repeat("-", n) + " ")
		}
		b.WriteString("|\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
