// Command lint is a tool for go vet -vettool: it runs analyzers that go vet and
// staticcheck lack.
package main

import (
	"github.com/polyfloyd/go-errorlint/errorlint"
	"go-simpler.org/sloglint"
	"golang.org/x/tools/go/analysis/passes/nilness"
	"golang.org/x/tools/go/analysis/passes/unusedwrite"
	"golang.org/x/tools/go/analysis/unitchecker"
)

func main() {
	unitchecker.Main(
		errorlint.NewAnalyzer(),
		nilness.Analyzer,
		// A log line is a message in lower case with attributes in snake case.
		sloglint.New(&sloglint.Options{MessageStyle: "lowercased", NoMixedArguments: true, KeyNamingCase: "snake"}),
		unusedwrite.Analyzer,
	)
}
