// Package spec is the config language: YAML with places, and structs that say
// what may stand in it.
//
// A document is parsed to a tree of [Node], each with the place it came from.
// A config struct is the one model of a piece of the language: its [Fields]
// are what [Decode] accepts, what [Schema] tells editors and what [Reference]
// explains to people.
//
//	type greeter struct {
//		Name  string        `yaml:"name" required:"true" doc:"Who greets."`
//		Tone  string        `yaml:"tone" enum:"warm|dry" default:"warm" doc:"How."`
//		Text  spec.Text     `yaml:"text" doc:"What is said; may use {state}."`
//		After spec.Duration `yaml:"after" default:"2s" doc:"How long it waits."`
//	}
//
//	root, problems := spec.Parse("greeter.yaml", src)
//	var g greeter
//	problems = append(problems, spec.Decode(root, &g)...)
//	if problems.HasErrors() {
//		return problems.WriteText(os.Stderr)
//	}
//
// Whatever is wrong is a [Diagnostic] at its place, and all of them are
// reported at once:
//
//	greeter.yaml:2:7: "wrm" is not one of: warm, dry [enum]
//	  | tone: wrm
//	  |       ^
//	hint: did you mean "warm"?
//
// Three words: a kind ([Kind]) is a named thing that documents may ask for; a
// rule is the check that found a problem, in brackets behind its message; a
// reference is ${env:X}, put in after parsing by [Interpolate].
//
// The package stands on the ground floor: it knows no agent and no tool.
// Nothing in it is safe for changes by many goroutines at once; all of it may
// be read by many.
package spec
