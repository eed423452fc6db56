package limit_test

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"agenthost/internal/limit"
)

var update = flag.Bool("update", false, "rewrite the table in docs/security.md")

// The table in docs/security.md matches the code.
func TestDocsTableMatchesCode(t *testing.T) {
	const file, begin, end = "../../docs/security.md", "| input | bytes |", "\n\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	if !found {
		t.Fatalf("%s has no table that begins with %q", file, begin)
	}
	table, after, _ := strings.Cut(begin+rest, end)
	if table == formatTable() {
		return
	}
	if !*update {
		t.Fatalf("%s is not up to date, run: go test ./internal/limit -update\ngot:\n%s\nwant:\n%s", file, table, formatTable())
	}
	if err := os.WriteFile(file, []byte(before+formatTable()+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

func formatTable() string {
	rows := []string{"| input | bytes | values | depth | time | also |", "| --- | --- | --- | --- | --- | --- |"}
	for _, in := range limit.All() {
		size := ""
		if in.Bytes > 0 {
			size = limit.FormatBytes(in.Bytes)
		}
		rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s | %s | %s |", in.Name, size, formatCount(in.Values), formatCount(in.Depth), formatTime(in.Time), in.Note))
	}
	table := strings.Join(rows, "\n")
	return strings.ReplaceAll(strings.ReplaceAll(table, "|  |", "| |"), "|  |", "| |")
}

// formatCount separates thousands by spaces, as the docs do.
func formatCount(n int) string {
	if n == 0 {
		return ""
	}
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0 && n >= 10_000; i -= 3 {
		text = text[:i] + " " + text[i:]
	}
	return text
}

func formatTime(d time.Duration) string {
	switch {
	case d == 0:
		return ""
	case d%time.Minute == 0:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	}
	return fmt.Sprintf("%d s", int(d.Seconds()))
}
