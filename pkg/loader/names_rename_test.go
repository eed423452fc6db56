package loader_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
)

// applyEdits replaces the ranges in an app's files with a name.
func applyEdits(t *testing.T, dir string, table *loader.NameTable, edits []loader.NameEdit, to string) {
	t.Helper()
	for i, e := range slices.Backward(edits) {
		file := filepath.Join(dir, filepath.FromSlash(e.File))
		text := table.Text(e.File)
		if i+1 < len(edits) && edits[i+1].File == e.File {
			var err error
			if text, err = os.ReadFile(file); err != nil {
				t.Fatal(err)
			}
		}
		write(t, file, string(text[:e.Range.Start])+to+string(text[e.Range.End:]))
	}
}

// describeProblems returns what check reports, with an old name instead of the new one.
func describeProblems(t *testing.T, l *loader.Loader, dir, name, old string) string {
	t.Helper()
	var all []string
	for _, d := range l.Check(t.Context(), dir) {
		all = append(all, fmt.Sprintf("%s:%d [%s] %s", filepath.Base(d.Pos.File), d.Pos.Line, d.Rule, strings.ReplaceAll(d.Message, name, old)))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// Each name in each example app can be renamed, or is refused. After a rename, check reports the same as
// before, and the rename back restores each byte.
func TestRenameInExampleApps(t *testing.T) {
	renamed := 0
	for app, from := range exampleApps(t) {
		t.Run(app, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "work", filepath.Base(from))
			if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
				t.Fatal(err)
			}
			l := loader.New(testenv.Kinds(), newOptions(from))
			x := l.NewNameIndex(dir)
			refresh := func() *loader.NameTable {
				table, err := x.Refresh(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return table
			}
			tried := map[string]bool{}
			for _, u := range refresh().Uses {
				to, key := "renamed_name", u.Kind.String()+" "+u.Name
				if prefix, _, ok := strings.Cut(u.Name, ":"); ok && u.Kind == loader.StateNames {
					to = prefix + ":" + to
				}
				if u.Kind == loader.CaseNames || tried[key] || strings.Contains(u.File, "..") {
					continue
				}
				tried[key] = true
				before, problems := refresh(), describeProblems(t, l, dir, to, u.Name)
				edits, err := x.Rename(before, u.Kind, u.Name, to)
				if err != nil {
					if !strings.Contains(err.Error(), "cannot rename") {
						t.Errorf("Rename(%s) = %v", key, err)
					}
					continue
				}
				renamed++
				applyEdits(t, dir, before, edits, to)
				if now := describeProblems(t, l, dir, to, u.Name); now != problems {
					t.Errorf("check after renaming %s:\n%s\nbefore:\n%s", key, now, problems)
				}
				after := refresh()
				if edits, err = x.Rename(after, u.Kind, to, u.Name); err != nil {
					t.Errorf("renaming %s back: %v", key, err)
				}
				applyEdits(t, dir, after, edits, u.Name)
				for _, file := range before.Files {
					if text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(file))); err != nil || string(text) != string(before.Text(file)) {
						t.Fatalf("%s differs after renaming %s and back", file, key)
					}
				}
			}
		})
	}
	if renamed < 100 {
		t.Errorf("renamed %d names, want more", renamed)
	}
}
