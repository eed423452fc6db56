package evalreport

import (
	"regexp"
	"testing"
)

// A CSV cell is never a formula, and has no characters that control a terminal or the text
// direction. The control is the text itself.
func TestFormatCell(t *testing.T) {
	hostile := regexp.MustCompile("^[=+\\-@\t\r\n]|[\x00-\x08\x0b-\x1f\x7f-\u009f\u202a-\u202e\u2066-\u2069]")
	cells, attacks, control := 0, 0, 0
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
		got := formatCell(text)
		if got != want {
			t.Errorf("formatCell(%q) = %q, want %q", text, got, want)
		}
		cells++
		if hostile.MatchString(got) {
			attacks++
		}
		if hostile.MatchString(text) {
			control++
		}
	}
	if attacks > 0 || control < cells/2 {
		t.Errorf("%d of %d cells are formulas or have control characters, control %d", attacks, cells, control)
	}
	t.Logf("shown: %d cells: %d formulas or control characters; control, written as they are: %d", cells, attacks, control)
}
