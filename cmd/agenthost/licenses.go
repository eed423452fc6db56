package main

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"agenthost/internal/command"
)

// licensesFile lists the modules that are linked into the binary, one per line with its
// version and licence, then an empty line and the texts of licences and notices.
// TestLicensesFresh writes it.
//
//go:embed licenses.txt.gz
var licensesFile []byte

func newLicensesCommand(env command.Env) *cobra.Command {
	var full bool
	cmd := &cobra.Command{
		Use:   "licenses",
		Short: "Print the licences of the software in this binary",
		Long: `Licenses prints the modules that are linked into this binary, with their versions and
licences. With --full it also prints the texts of licences and notices. The source of
each module is available at its path, in the printed version.`,
		Args: command.RequireArgs(0, 0),
		RunE: func(*cobra.Command, []string) error { return command.FailWith(printLicenses(env.Out, full)) },
	}
	cmd.Flags().BoolVar(&full, "full", false, "also print the licence texts")
	return cmd
}

func printLicenses(out io.Writer, full bool) error {
	text, err := unpackLicenses(licensesFile)
	if err != nil {
		return err
	}
	list, texts, _ := strings.Cut(text, "\n\n")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MODULE\tVERSION\tLICENCE")
	for line := range strings.Lines(list) {
		fmt.Fprintln(w, strings.ReplaceAll(strings.TrimSpace(line), " ", "\t"))
	}
	if err := w.Flush(); err != nil || !full {
		return err
	}
	_, err = fmt.Fprintf(out, "\n%s", texts)
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
