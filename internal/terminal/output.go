package terminal

import (
	"io"
	"os"
	"sync"

	"golang.org/x/term"
)

// An Output is a stream that a command prints to. On a terminal it filters all that is written. It
// is safe for concurrent use.
type Output struct {
	out      io.Writer
	file     *os.File // nil in tests
	settings Settings

	mu     sync.Mutex
	filter Filter
}

// Settings describe an output.
type Settings struct {
	// Terminal reports that a person reads the output.
	Terminal bool
	// Styles adds colours.
	Styles bool
	// Width is the number of columns; 0 means no limit.
	Width int
}

// OpenOutput returns an output on a file, with the settings that the file and the environment have:
// NO_COLOR turns styles off, CLICOLOR_FORCE turns them on, and by default a terminal has styles
// unless TERM is dumb or CLICOLOR is 0.
func OpenOutput(file *os.File, getenv func(string) string) *Output {
	isTerminal := IsTerminal(file)
	styles := isTerminal && getenv("TERM") != "dumb" && getenv("CLICOLOR") != "0"
	if force := getenv("CLICOLOR_FORCE"); force != "" && force != "0" {
		styles = true
	}
	if getenv("NO_COLOR") != "" {
		styles = false
	}
	if styles && isTerminal {
		styles = enableSequences(file)
	}
	return &Output{out: file, file: file, settings: Settings{Terminal: isTerminal, Styles: styles}}
}

// NewOutput returns an output on any writer.
func NewOutput(w io.Writer, settings Settings) *Output {
	return &Output{out: w, settings: settings}
}

// Write implements [io.Writer]. On a terminal it filters text and writes it without styles.
func (o *Output) Write(p []byte) (int, error) {
	if !o.settings.Terminal {
		return o.out.Write(p)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, err := o.out.Write(o.filter.Append(nil, p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Print prints text that has this package's styles. It removes each other control sequence.
func Print(w io.Writer, text string) error {
	o, ok := w.(*Output)
	if !ok || !o.settings.Terminal {
		_, err := io.WriteString(w, text)
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	f := Filter{keepStyles: true}
	styled := f.Append(o.filter.Flush(nil), []byte(text))
	_, err := o.out.Write(f.Flush(styled))
	return err
}

// StylesOf returns a stream's styles: none unless it is an [Output] with styles.
func StylesOf(stream any) Styles {
	o, ok := stream.(*Output)
	return Styles{ok && o.settings.Styles}
}

// WidthOf returns the number of columns of a terminal; 0, for no limit, if the stream is none.
func WidthOf(stream any) int {
	o, ok := stream.(*Output)
	switch {
	case !ok || !o.settings.Terminal:
		return 0
	case o.file == nil:
		return o.settings.Width
	}
	if width, _, err := term.GetSize(int(o.file.Fd())); err == nil && width > 0 {
		return width
	}
	return 80
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	switch s := stream.(type) {
	case *Output:
		return s.settings.Terminal
	case *os.File:
		return term.IsTerminal(int(s.Fd()))
	}
	return false
}

// Unfiltered returns the writer below an [Output], for text that controls the terminal itself, such
// as a line editor. The caller filters all text from outside.
func Unfiltered(w io.Writer) io.Writer {
	if o, ok := w.(*Output); ok {
		return o.out
	}
	return w
}
