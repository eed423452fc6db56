package main

import (
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/pflag"

	"agenthost/pkg/server"
)

// devFlags are what serve has for developers.
type devFlags struct {
	dev bool
	ui  string
}

func (f *devFlags) registerFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&f.dev, "dev", false, "let developers' tools in: keep what models were told in traces, and let the visual builder write apps' files")
	flags.StringVar(&f.ui, "ui-dir", "", "serve the ADK Web bundle of this folder at /dev-ui/, with --dev")
}

// openBundle are the bundle; nil when none is served. Links in it may not lead out.
func (f *devFlags) openBundle() (fs.FS, func() error, error) {
	if f.ui == "" {
		return nil, func() error { return nil }, nil
	}
	root, err := os.OpenRoot(f.ui)
	if err != nil {
		return nil, nil, fmt.Errorf("--ui-dir %s: there is no such folder", f.ui)
	}
	if _, err := root.Stat("index.html"); err != nil {
		root.Close()
		return nil, nil, fmt.Errorf("--ui-dir %s has no index.html: name the folder dist/browser of a built ADK Web", f.ui)
	}
	return root.FS(), root.Close, nil
}

// isEnabled says whether developers may write.
func (f *devFlags) isEnabled() bool { return f.dev || f.ui != "" }

// devOptions gives the server what developers see.
func (m *serveMain) devOptions(opts *server.Options) *server.Options {
	opts.Traces, opts.Folders, opts.Dev, opts.UI = m.traces, m.watch, m.flags.dev.isEnabled(), m.ui
	return opts
}
