package command

import (
	"encoding/json"
	"fmt"
	"io"

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
	if err := ds.WriteText(env.Err); err != nil {
		return FailWith(err)
	}
	return nil
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
