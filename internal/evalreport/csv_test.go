package evalreport

import "testing"

// A cell of the CSV report is never a formula, and has no characters that control a terminal
// or the direction of text.
func TestFormatCell(t *testing.T) {
	for text, want := range map[string]string{
		"=cmd|calc!A1":       "'=cmd|calc!A1",
		"+1":                 "'+1",
		"-2+3":               "'-2+3",
		"@SUM(A1)":           "'@SUM(A1)",
		"\t=1":               "'\t=1",
		"\r=1":               `'\u000d=1`,
		"\n=1":               "'\n=1",
		"a\x1b[31mb\x7f":     `a\u001b[31mb\u007f`,
		"a\u202eb\u2066c":    `a\u202eb\u2066c`,
		"a\u009bb":           `a\u009bb`,
		"two\nlines, =1+1":   "two\nlines, =1+1",
		"grüße \u65e5\u672c": "grüße \u65e5\u672c",
		"":                   "",
	} {
		if got := formatCell(text); got != want {
			t.Errorf("formatCell(%q) = %q, want %q", text, got, want)
		}
	}
}
