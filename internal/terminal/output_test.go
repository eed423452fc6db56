package terminal

import (
	"bytes"
	"os"
	"testing"
)

// Colours follow NO_COLOR, CLICOLOR, CLICOLOR_FORCE and TERM; a pipe has none by itself.
func TestOpenOutputOnPipe(t *testing.T) {
	for _, c := range []struct {
		name string
		env  map[string]string
		want bool
	}{
		{"no variables", nil, false},
		{"forced", map[string]string{"CLICOLOR_FORCE": "1"}, true},
		{"force is 0", map[string]string{"CLICOLOR_FORCE": "0"}, false},
		{"NO_COLOR wins", map[string]string{"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, false},
		{"forced on a dumb terminal", map[string]string{"CLICOLOR_FORCE": "1", "TERM": "dumb"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			reader, writer, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
			defer writer.Close()
			o := OpenOutput(writer, func(name string) string { return c.env[name] })
			if got := StylesOf(o).Enabled(); got != c.want {
				t.Errorf("styles = %v, want %v", got, c.want)
			}
			if IsTerminal(o) || WidthOf(o) != 0 {
				t.Errorf("terminal %v, width %d, want a pipe without a limit", IsTerminal(o), WidthOf(o))
			}
		})
	}
}

// A null device is a character device, but not a terminal.
func TestIsTerminalNullDevice(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if IsTerminal(null) {
		t.Errorf("%s is a terminal", os.DevNull)
	}
}

// On a terminal, Write removes all sequences, and Print only those that are not styles of this
// package; on a pipe both write what they get.
func TestOutputWriteAndPrint(t *testing.T) {
	hostile := "\x1b[31mred\x1b[2J\x1b]0;t\a\u202e"
	for _, c := range []struct {
		name         string
		terminal     bool
		write, print string
	}{
		{"terminal", true, `red\x1b]…\u202e`, "\x1b[31mred" + `\x1b]…\u202e`},
		{"pipe", false, hostile, hostile},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			o := NewOutput(&out, Settings{Terminal: c.terminal, Styles: true})
			for _, b := range []byte(hostile) {
				if _, err := o.Write([]byte{b}); err != nil {
					t.Fatal(err)
				}
			}
			if got := out.String(); got != c.write {
				t.Errorf("Write: %q, want %q", got, c.write)
			}
			out.Reset()
			if err := Print(o, hostile); err != nil {
				t.Fatal(err)
			}
			if got := out.String(); got != c.print {
				t.Errorf("Print: %q, want %q", got, c.print)
			}
		})
	}
}

// Format cleans what it formats, so that text from outside cannot end its style or begin another.
func TestStylesFormat(t *testing.T) {
	for _, c := range []struct {
		role   Role
		styled string
	}{
		{Plain, "a b"},
		{Title, "\x1b[1ma b\x1b[0m"},
		{Muted, "\x1b[2ma b\x1b[0m"},
		{Good, "\x1b[32ma b\x1b[0m"},
		{Warning, "\x1b[33ma b\x1b[0m"},
		{Bad, "\x1b[31ma b\x1b[0m"},
		{Code, "\x1b[36ma b\x1b[0m"},
		{Link, "\x1b[4ma b\x1b[0m"},
	} {
		if got := NewStyles(true).Format(c.role, "a\x1b[0m b\x1b[2J"); got != c.styled {
			t.Errorf("role %d: %q, want %q", c.role, got, c.styled)
		}
		if got := NewStyles(false).Format(c.role, "a\x1b[0m b"); got != "a b" {
			t.Errorf("role %d without styles: %q, want %q", c.role, got, "a b")
		}
	}
}

// The bar replaces its line, writes nothing for the same line, and leaves nothing on the terminal.
func TestProgress(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(NewOutput(&out, Settings{Terminal: true, Width: 60}), 4)
	p.Update(1, "cases\x1b[2J passed")
	p.Update(1, "cases passed")
	p.Update(4, "")
	p.Clear()
	p.Clear()
	want := "\r[######------------------] 1/4, cases passed" +
		"\r[########################] 4/4              " +
		"\r                              \r"
	if got := out.String(); got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}

func TestProgressNarrowTerminal(t *testing.T) {
	var out bytes.Buffer
	NewProgress(NewOutput(&out, Settings{Terminal: true, Width: 40}), 4).Update(2, "a long note about a case")
	if got, want := out.String(), "\r[############------------] 2/4, a long…"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}

func TestProgressOnPipe(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(NewOutput(&out, Settings{}), 4)
	p.Update(1, "a")
	p.Clear()
	if out.Len() > 0 {
		t.Errorf("printed %q on a pipe", out.String())
	}
}
