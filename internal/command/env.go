package command

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"agenthost/internal/terminal"
	"agenthost/pkg/loader"
	"agenthost/pkg/spec"
	"agenthost/pkg/store/sqlstore"
	"agenthost/pkg/store/storeurl"
)

// An Env is what the program hands to a command.
type Env struct {
	// In, Out and Err are the standard streams.
	In       io.Reader
	Out, Err io.Writer
	// Interrupts handles the terminal's interrupts (^C); nil if it has none.
	Interrupts *Interrupter
	// Version is the program's version.
	Version string
	// Kinds are what documents can name.
	Kinds loader.Kinds
	// Schemes are the store URL schemes.
	Schemes []storeurl.Scheme
	// Engines are the session database engines.
	Engines sqlstore.Engines
}

// NewLoader returns a loader for the program's kinds; options may be nil.
func (env Env) NewLoader(opts *loader.Options) *loader.Loader {
	return loader.New(env.Kinds, opts)
}

// WriteDiagnostics prints problems on Err, each with its source line.
func (env Env) WriteDiagnostics(ds spec.Diagnostics) error {
	return FailWith(PrintDiagnostics(env.Err, ds))
}

// PrintDiagnostics prints problems, each with its source line and its hint, in the stream's styles.
func PrintDiagnostics(w io.Writer, ds spec.Diagnostics) error {
	styles := terminal.StylesOf(w)
	if !styles.Enabled() {
		return ds.WriteText(w)
	}
	var styled strings.Builder
	for _, d := range ds {
		var text strings.Builder
		_ = spec.Diagnostics{d}.WriteText(&text) // a strings.Builder returns no errors
		for i, line := range strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n") {
			role := terminal.Plain
			switch {
			case i == 0 && d.Severity == spec.Error:
				role = terminal.Bad
			case i == 0:
				role = terminal.Warning
			case strings.HasPrefix(line, "  | "):
				role = terminal.Muted
			case strings.HasPrefix(line, "hint: "):
				role = terminal.Good
			}
			styled.WriteString(styles.Format(role, line) + "\n")
		}
	}
	return terminal.Print(w, styled.String())
}

// PrintJSON prints a value as indented JSON on Out.
func (env Env) PrintJSON(v any) error {
	enc := json.NewEncoder(env.Out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return FailWith(enc.Encode(v))
}

// FormatCount formats a number with its noun, such as "1 case" or "2 cases".
func FormatCount(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
