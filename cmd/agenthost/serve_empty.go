package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"agenthost/pkg/loader"
)

// maxListedFolders is how many folders are named among which no app was found.
const maxListedFolders = 5

// printEmptyGreeting says that there is no app, where one was looked for, and how to make
// one: a folder that is the wrong one looks like one that is empty.
func (m *serveMain) printEmptyGreeting(out io.Writer) {
	fmt.Fprintln(out, "  There is no app yet: no root_agent.yaml and no app.yaml in")
	for _, dir := range m.dirs {
		fmt.Fprintf(out, "    %s\n", describeFolder(dir))
		if file, name := loader.FindMisnamed(dir); file != "" {
			fmt.Fprintf(out, "    Rename %s to %s.\n", file, name)
		}
	}
	fmt.Fprintf(out, "\nMake one, and it is served as soon as it is there:\n\n  agenthost new %s\n", filepath.Join(m.dirs[0], "hello"))
}

// describeFolder is a folder, with those in it that might have been apps.
func describeFolder(dir string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Sprintf("%s, which cannot be read", dir)
	}
	var inside []string
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && !strings.HasPrefix(e.Name(), "_") {
			inside = append(inside, e.Name())
		}
	}
	switch {
	case len(inside) == 0:
		return dir + ", which has no folders"
	case len(inside) > maxListedFolders:
		return fmt.Sprintf("%s, nor in its folders %s and %d more", dir, strings.Join(inside[:maxListedFolders], ", "), len(inside)-maxListedFolders)
	}
	return fmt.Sprintf("%s, nor in its folders %s", dir, strings.Join(inside, ", "))
}
