package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"agenthost/internal/command"
)

// release and commit come from git; the Makefile and the Dockerfile set them with
// -ldflags -X. A build without them falls back to what Go recorded.
var release, commit string

func newVersionCommand(env command.Env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit and the Go version",
		Args:  command.RequireArgs(0, 0),
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return env.PrintJSON(map[string]string{"version": buildVersion(), "commit": buildCommit(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH})
			}
			_, err := fmt.Fprintf(env.Out, "agenthost %s\n", versionLine())
			return command.FailWith(err)
		},
	}
	command.RegisterOutput(cmd.Flags(), &asJSON, false)
	return cmd
}

// versionLine returns the build's version, commit and platform.
func versionLine() string {
	return fmt.Sprintf("%s (commit %s, %s %s/%s)", buildVersion(), buildCommit(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// buildCommit returns the build's commit.
func buildCommit() string { return cmp.Or(commit, recordedCommit(), "unknown") }

// buildVersion returns the build's release, module version, or commit.
func buildVersion() string {
	recorded := ""
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "(devel)" {
		recorded = info.Main.Version
	}
	return cmp.Or(release, recorded, commit, recordedCommit(), "development")
}

// recordedCommit returns the commit that Go recorded in the build, or an empty string.
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
