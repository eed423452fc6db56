// Package spec implements the config language: YAML with source positions, decoded into tagged
// structs.
//
// [Parse] turns a document into a tree of [Node], each with its position. A config struct is the
// single model for its part of the language: its [Fields] define what [Decode] accepts, and
// [Schema] and [Reference] document them for editors and users.
//
//	type greeter struct {
//		Name  string        `yaml:"name" required:"true" doc:"Name of the greeter."`
//		Tone  string        `yaml:"tone" enum:"warm|dry" default:"warm" doc:"Tone of the greeting."`
//		Text  spec.Text     `yaml:"text" doc:"Greeting; may use {state}."`
//		After spec.Duration `yaml:"after" default:"2s" doc:"Delay before the greeting."`
//	}
//
//	root, problems := spec.Parse("greeter.yaml", src)
//	var g greeter
//	problems = append(problems, spec.Decode(root, &g)...)
//	if problems.HasErrors() {
//		return problems.WriteText(os.Stderr)
//	}
//
// Every problem is a [Diagnostic] with its position, and all problems are reported at once:
//
//	greeter.yaml:2:7: "wrm" is not one of: warm, dry [enum]
//	  | tone: wrm
//	  |       ^
//	hint: did you mean "warm"?
//
// Terms: a kind ([Kind]) is a named variant that documents select; a rule is the check that found a
// problem, in brackets after its message; a reference is ${env:X}, which [Interpolate] replaces
// after parsing.
//
// The package depends on no other agenthost package. Its types are safe for concurrent reads, but
// not for concurrent changes.
package spec
