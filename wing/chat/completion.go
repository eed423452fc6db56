package chat

import (
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"agenthost/internal/terminal"
)

// A Suggestion completes the text before the cursor.
type Suggestion struct {
	// Text replaces the word, and Note describes it.
	Text, Note string
	// Entry is what the editor shows instead of everything it has, for a search in the history.
	whole bool
	// pasted is the entry's; see lineedit.Entry.
	pasted bool
}

// maxMenuRows limits the rows of a menu.
const maxMenuRows = 6

// A menu lists suggestions below the editor.
type menu struct {
	items []Suggestion
	// word is how many characters before the cursor an item replaces.
	word int
	at   int
	// chosen reports that the person has moved in the menu, so that Enter accepts the item.
	chosen bool
}

// moveMark goes to another item, around the ends.
func (m *menu) moveMark(by int) {
	m.at = (m.at + by + len(m.items)) % len(m.items)
	m.chosen = true
}

// renderRows returns the rows around the chosen item.
func (m *menu) renderRows(styles terminal.Styles, width int) []string {
	first := max(0, min(m.at-maxMenuRows/2, len(m.items)-maxMenuRows))
	last := min(len(m.items), first+maxMenuRows)
	longest := 0
	for _, s := range m.items[first:last] {
		longest = max(longest, min(ansi.StringWidth(firstLine(s.Text)), max(10, width-4)))
	}
	var rows []string
	for i, s := range m.items[first:last] {
		mark, role := "  ", terminal.Plain
		if first+i == m.at {
			mark, role = "› ", terminal.Code
		}
		name := terminal.Truncate(terminal.CleanLine(firstLine(s.Text)), longest)
		row := styles.Format(role, mark+name)
		if room := width - 4 - longest; s.Note != "" && room > 8 {
			row += strings.Repeat(" ", 2+longest-ansi.StringWidth(name)) + styles.Format(terminal.Muted, terminal.Truncate(terminal.CleanLine(s.Note), room))
		}
		rows = append(rows, row)
	}
	return rows
}

func firstLine(text string) string {
	line, rest, cut := strings.Cut(text, "\n")
	if cut && rest != "" {
		return line + " …"
	}
	return line
}

// maxSuggestedFiles limits the names that a folder contributes.
const maxSuggestedFiles = 200

// SuggestMention returns the files that complete a word that begins with @ before the cursor.
func SuggestMention(before string) (word int, items []Suggestion) {
	at := strings.LastIndexByte(before, '@')
	if at < 0 || at > 0 && !unicode.IsSpace(rune(before[at-1])) {
		return 0, nil
	}
	prefix := before[at+1:]
	if quoted, ok := strings.CutPrefix(prefix, `"`); ok {
		prefix = quoted
	} else if strings.ContainsFunc(prefix, unicode.IsSpace) {
		return 0, nil
	}
	for _, s := range SuggestFiles(prefix) {
		text := "@" + s.Text
		if strings.Contains(s.Text, " ") {
			text = `@"` + s.Text
			if !strings.HasSuffix(s.Text, "/") {
				text += `"`
			}
		}
		items = append(items, Suggestion{Text: text})
	}
	return len([]rune(before[at:])), items
}

// SuggestFiles returns the files and folders whose path begins with a prefix. Those that begin with
// a dot appear only if the prefix does.
func SuggestFiles(prefix string) []Suggestion {
	dir, name := filepath.Split(prefix)
	folder := ExpandHome(dir)
	if folder == "" {
		folder = "."
	}
	f, err := os.Open(folder)
	if err != nil {
		return nil // a folder that cannot be read completes nothing
	}
	defer f.Close()
	entries, _ := f.ReadDir(10_000) // what could be read
	var found []Suggestion
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), name) || strings.HasPrefix(e.Name(), ".") && !strings.HasPrefix(name, ".") || len(found) == maxSuggestedFiles {
			continue
		}
		path := dir + e.Name()
		if e.IsDir() {
			path += "/"
		}
		if strings.ContainsFunc(path, unicode.IsControl) || strings.Contains(path, `"`) {
			continue
		}
		found = append(found, Suggestion{Text: path})
	}
	return found
}

// ExpandHome replaces ~ at the beginning of a path by the user's folder.
func ExpandHome(file string) string {
	if rest, ok := strings.CutPrefix(file, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	return file
}
