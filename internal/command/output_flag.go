package command

import (
	"fmt"

	"github.com/spf13/pflag"
)

// RegisterOutput adds --output, which sets json for --output json. With it a command prints JSON and
// nothing else on stdout: one value, or with lines one value on each line. --json means the same.
func RegisterOutput(flags *pflag.FlagSet, json *bool, lines bool) {
	usage := "output format: text, or json for one JSON value"
	if lines {
		usage = "output format: text, or json for a JSON value on each line"
	}
	flags.Var((*outputFlag)(json), "output", usage)
	flags.BoolVar(json, "json", false, "print JSON, as --output json")
	_ = flags.MarkHidden("json") // the flag exists
}

// An outputFlag is true for json.
type outputFlag bool

// Set parses the flag.
func (f *outputFlag) Set(text string) error {
	if text != "text" && text != "json" {
		return fmt.Errorf("must be text or json, got %q", text)
	}
	*f = text == "json"
	return nil
}

// String formats the flag.
func (f *outputFlag) String() string {
	if *f {
		return "json"
	}
	return "text"
}

// Type names the type in the usage text.
func (f *outputFlag) Type() string { return "string" }

// RegisterFormat adds --output for a command with more formats than text and json; --format means the
// same.
func RegisterFormat(flags *pflag.FlagSet, format *string, usage string) {
	flags.StringVar(format, "output", "text", usage)
	flags.StringVar(format, "format", "text", usage)
	_ = flags.MarkHidden("format") // the flag exists
}
