package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"agenthost/internal/command"
	"agenthost/pkg/loader"
)

// maxListedFolders limits how many folders without apps are listed.
const maxListedFolders = 5

// printEmptyGreeting reports that there are no apps, lists the searched folders because
// the path may be wrong, and prints how to create an app.
func (m *serveMain) printEmptyGreeting(out io.Writer) {
	fmt.Fprintln(out, "  No apps found: no root_agent.yaml and no app.yaml in")
	for _, dir := range m.dirs {
		fmt.Fprintf(out, "    %s\n", describeFolder(dir))
		if file, name := loader.FindMisnamed(dir); file != "" {
			fmt.Fprintf(out, "    Rename %s to %s.\n", file, name)
		}
	}
	fmt.Fprintf(out, "\nCreate an app, and it is served immediately:\n\n  agenthost new %s\n", filepath.Join(m.dirs[0], "hello"))
}

// describeFolder returns a folder and its subfolders that could be apps.
func describeFolder(dir string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Sprintf("%s, which is unreadable", dir)
	}
	var inside []string
	for _, e := range entries {
		if _, err := os.Stat(filepath.Join(dir, e.Name(), command.DatabaseName)); err == nil {
			continue // the folder with the sessions
		}
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && !strings.HasPrefix(e.Name(), "_") {
			inside = append(inside, e.Name())
		}
	}
	switch {
	case len(inside) == 0:
		return dir + ", which has no subfolders"
	case len(inside) > maxListedFolders:
		return fmt.Sprintf("%s and its subfolders %s and %d more", dir, strings.Join(inside[:maxListedFolders], ", "), len(inside)-maxListedFolders)
	}
	return fmt.Sprintf("%s and its subfolders %s", dir, strings.Join(inside, ", "))
}
