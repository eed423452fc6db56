package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// release and commit are set by the Makefile and the Dockerfile (-ldflags -X): what git
// says of the sources. A build without them falls back to what Go recorded.
var release, commit string

func newVersion(io stdio) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit and the version of Go",
		Args:  requireArgs(0, 0),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(io.out, "agenthost %s\n", versionLine())
			return failWith(err)
		},
	}
}

// versionLine is all that is known of the build.
func versionLine() string {
	return fmt.Sprintf("%s (commit %s, %s %s/%s)", buildVersion(), cmp.Or(commit, recordedCommit(), "unknown"), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// buildVersion is the release, that of the module, or the commit it was built from.
func buildVersion() string {
	recorded := ""
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "(devel)" {
		recorded = info.Main.Version
	}
	return cmp.Or(release, recorded, commit, recordedCommit(), "development")
}

// recordedCommit is the commit that Go found while it built; empty without one.
func recordedCommit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return s.Value[:12]
		}
	}
	return ""
}
