package command

import (
	"cmp"
	"strings"
)

// TruncateLine returns a line for a table or a summary: at most 60 characters, and `""` if it is
// blank.
func TruncateLine(line string) string {
	const width = 60
	if runes := []rune(line); len(runes) > width {
		line = string(runes[:width-1]) + "…"
	}
	return cmp.Or(strings.TrimSpace(line), `""`)
}
