package chat

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/charmbracelet/x/vt"
	"github.com/google/go-cmp/cmp"

	"agenthost/internal/terminal"
	"agenthost/wing/chat/lineedit"
)

var update = flag.Bool("update", false, "rewrite the screens in testdata")

// Each script in testdata types keys into an emulated terminal and compares its screen. The lines of
// a screen begin with "|", and ▮ is the cursor.
func TestScreens(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			script, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := runScript(t, string(script))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(script), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", file, diff)
			}
		})
	}
}

// A screenTest is a terminal whose other side is an emulator.
type screenTest struct {
	*Terminal
	t      *testing.T
	screen *vt.Emulator
	out    io.Writer
}

func newScreenTest(t *testing.T, width, height int) *screenTest {
	s := &screenTest{t: t, screen: vt.NewEmulator(width, height)}
	opts := Options{
		Complete: completeTest,
		Status:   func() []string { return []string{"answered in 1.0 s", "12 tokens in, 3 out", "$0.001"} },
	}
	s.Terminal = newTerminal(opts, s.screen, func() (int, int) { return s.screen.Width(), s.screen.Height() })
	s.out = s.NewOutput(false)
	return s
}

// completeTest suggests two commands and a file.
func completeTest(before string) (word int, items []Suggestion) {
	for _, s := range []Suggestion{{Text: "/help", Note: "list the commands"}, {Text: "/quit", Note: "leave"}, {Text: "@notes.md"}} {
		last := before[strings.LastIndexByte(before, ' ')+1:]
		if last != "" && strings.HasPrefix(s.Text, last) {
			items = append(items, s)
			word = len(last)
		}
	}
	return word, items
}

// runScript executes the script's lines and returns it with the screens and values that it had.
func runScript(t *testing.T, script string) string {
	s := newScreenTest(t, 40, 10)
	var result strings.Builder
	for line := range strings.Lines(script) {
		if strings.HasPrefix(line, "|") || strings.HasPrefix(line, "= ") {
			continue
		}
		result.WriteString(line)
		verb, arg, _ := strings.Cut(strings.TrimSpace(line), " ")
		text := arg
		if strings.HasPrefix(arg, `"`) {
			var err error
			if text, err = strconv.Unquote(arg); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
		switch verb {
		case "", "#":
		case "size":
			var width, height int
			if _, err := fmt.Sscan(arg, &width, &height); err != nil {
				t.Fatal(err)
			}
			s.screen.Resize(width, height)
			s.Refresh()
		case "message":
			s.OpenPrompt(Prompt{Text: "> "})
		case "question":
			s.OpenPrompt(Prompt{Text: text, Question: true})
		case "secret":
			s.OpenPrompt(Prompt{Text: text, Question: true, Secret: true})
		case "keys":
			s.handleBytes([]byte(text), false)
		case "escape": // the time for the rest of a key is over
			s.handleBytes(nil, true)
		case "print":
			fmt.Fprint(s.out, text)
			s.Refresh()
		case "close":
			s.Close()
		case "history":
			for _, e := range s.opts.History.Search("", 10) {
				fmt.Fprintf(&result, "= %q\n", e.Text)
			}
		case "read":
			select {
			case line, ok := <-s.Lines():
				fmt.Fprintf(&result, "= %q %v %q\n", line, ok, s.Mentions())
			default:
				result.WriteString("= nothing\n")
			}
		case "screen":
			result.WriteString(s.showScreen())
		default:
			t.Fatalf("unknown line %s", line)
		}
	}
	return result.String()
}

// showScreen returns the scrolled lines and the screen, without empty lines at its end.
func (s *screenTest) showScreen() string {
	cursor := s.screen.CursorPosition()
	var b strings.Builder
	for i := range s.screen.Scrollback().Len() {
		fmt.Fprintf(&b, "|%s\n", strings.TrimRight(s.screen.Scrollback().Line(i).String(), " "))
	}
	rows := strings.Split(s.screen.String(), "\n")
	for len(rows) > cursor.Y+1 && strings.TrimSpace(rows[len(rows)-1]) == "" {
		rows = rows[:len(rows)-1]
	}
	for y, row := range rows {
		if y == cursor.Y {
			letters := []rune(row + strings.Repeat(" ", s.screen.Width()))
			row = string(letters[:cursor.X]) + "▮" + string(letters[cursor.X:])
		}
		fmt.Fprintf(&b, "|%s\n", strings.TrimRight(row, " "))
	}
	return b.String()
}

// The history's file has only messages, its owner alone can read it, and another conversation
// continues it.
func TestHistoryFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state", "history.jsonl")
	open := func() *screenTest {
		s := newScreenTest(t, 80, 24)
		h, err := lineedit.OpenHistory(file)
		if err != nil {
			t.Fatal(err)
		}
		s.opts.History = h
		return s
	}
	first := open()
	first.OpenPrompt(Prompt{Text: "> "})
	first.handleBytes([]byte("order 7\r"), false)
	first.OpenPrompt(Prompt{Text: "approve? [y/n] ", Question: true})
	first.handleBytes([]byte("yes-i-do\r"), false)
	first.OpenPrompt(Prompt{Text: "> "})
	first.handleBytes([]byte(" a message that begins with a space\r"), false)
	text, err := os.ReadFile(file)
	if err != nil || string(text) != `{"text":"order 7"}`+"\n" {
		t.Errorf("the file has %q, %v", text, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
	}
	next := open()
	next.OpenPrompt(Prompt{Text: "> "})
	next.handleBytes([]byte("\x1b[A\r"), false)
	if line := <-next.Lines(); line != "order 7" {
		t.Errorf("the message before is %q", line)
	}
}

// No control character of what is printed, asked, typed or completed reaches the terminal.
func TestTerminalReceivesNoControls(t *testing.T) {
	const attack = "a\x1b]0;owned\x07b\x1b[2Jc\u202ed\u009b31me\x1b]52;c;aGk=\x07"
	var sent strings.Builder
	s := newTerminal(Options{
		Complete: func(string) (int, []Suggestion) { return 1, []Suggestion{{Text: attack, Note: attack}} },
		Status:   func() []string { return []string{attack} },
		Styles:   terminal.NewStyles(true),
	}, &sent, func() (int, int) { return 40, 10 })
	fmt.Fprint(s.NewOutput(false), attack, "\n", attack)
	s.OpenPrompt(Prompt{Text: attack, Question: true})
	s.handleBytes([]byte("\x1b[200~"+attack+"\x1b[201~"), false)
	s.handleBytes([]byte("\r"), false)
	s.OpenPrompt(Prompt{Text: "> "})
	s.handleBytes([]byte("/\t\r"), false)
	s.handleBytes([]byte("\x1b[200~"+attack+"\x1b[201~\r"), false)
	s.Close()
	own := strings.NewReplacer(hideCursor, "", showCursor, "", beginUpdate, "", endUpdate, "", eraseLine, "", eraseBelow, "", "\r\n", "", "\r", "")
	for _, sequence := range strings.Split(own.Replace(sent.String()), "\x1b") {
		if strings.ContainsAny(sequence, "\a\u202e\u009b\x07") || strings.HasPrefix(sequence, "]") || strings.HasPrefix(sequence, "[2J") {
			t.Errorf("the terminal receives %q", sequence)
		}
	}
}
