package main

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"agenthost/internal/command"
	"agenthost/internal/terminal"
)

// licensesFile lists the modules that are linked into the binary, one per line with its
// version and licence, then an empty line and the texts of licences and notices.
// TestLicensesFresh writes it.
//
//go:embed licenses.txt.gz
var licensesFile []byte

func newLicensesCommand(env command.Env) *cobra.Command {
	var full, asJSON bool
	cmd := &cobra.Command{
		Use:   "licenses",
		Short: "Print the licences of the software in this binary",
		Long: `Licenses prints the modules that are linked into this binary, with their versions and
licences. With --full it also prints the texts of licences and notices. The source of
each module is available at its path, in the printed version.`,
		Args: command.RequireArgs(0, 0),
		RunE: func(*cobra.Command, []string) error { return command.FailWith(printLicenses(env, full, asJSON)) },
	}
	cmd.Flags().BoolVar(&full, "full", false, "also print the licence texts")
	command.RegisterOutput(cmd.Flags(), &asJSON, false)
	return cmd
}

func printLicenses(env command.Env, full, asJSON bool) error {
	text, err := unpackLicenses(licensesFile)
	if err != nil {
		return err
	}
	list, texts, _ := strings.Cut(text, "\n\n")
	table := terminal.NewTable(terminal.Column{Title: "MODULE", Whole: true}, terminal.Column{Title: "VERSION"}, terminal.Column{Title: "LICENCE"})
	modules := []map[string]string{}
	for line := range strings.Lines(list) {
		fields := strings.Fields(line)
		table.AddRow(fields...)
		modules = append(modules, map[string]string{"module": fields[0], "version": fields[1], "licence": fields[2]})
	}
	switch {
	case asJSON && full:
		return env.PrintJSON(map[string]any{"modules": modules, "texts": texts})
	case asJSON:
		return env.PrintJSON(map[string]any{"modules": modules})
	}
	if err := table.Print(env.Out); err != nil || !full {
		return err
	}
	_, err = fmt.Fprintf(env.Out, "\n%s", texts)
	return err
}

func unpackLicenses(packed []byte) (string, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(r)
	return string(text), err
}
