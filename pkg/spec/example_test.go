package spec_test

import (
	"fmt"
	"os"

	"agenthost/pkg/spec"
)

// greeter is a config struct: the single model for its part of the language.
type greeter struct {
	Name  string        `yaml:"name" required:"true" doc:"Name of the greeter."`
	Tone  string        `yaml:"tone" enum:"warm|dry" default:"warm" doc:"Tone of the greeting."`
	Text  spec.Text     `yaml:"text" doc:"Greeting; may use {state}."`
	After spec.Duration `yaml:"after" default:"2s" doc:"Delay before the greeting."`
}

func Example() {
	root, problems := spec.Parse("greeter.yaml", []byte("name: Ann\ntext: Hello {user}\n"))
	var g greeter
	problems = append(problems, spec.Decode(root, &g)...)
	fmt.Println(len(problems), g.Name, g.Tone, g.After, g.Text.At(6))
	// Output: 0 Ann warm 2s greeter.yaml:2:13
}

func ExampleDiagnostics_WriteText() {
	root, problems := spec.Parse("greeter.yaml", []byte("nmae: Ann\ntone: wrm\n"))
	var g greeter
	problems = append(problems, spec.Decode(root, &g)...)
	problems.Sort()
	if err := problems.WriteText(os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// greeter.yaml:1:1: unknown field "nmae" [unknown-field]
	//   | nmae: Ann
	//   | ^
	// hint: did you mean "name"?
	// greeter.yaml:2:7: "wrm" is not one of: warm, dry [enum]
	//   | tone: wrm
	//   |       ^
	// hint: did you mean "warm"?
}
