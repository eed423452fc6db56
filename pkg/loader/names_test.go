package loader_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/store"
)

// exampleApps returns the folders of the apps in this repository and in testdata/ok, by name.
func exampleApps(t *testing.T) map[string]string {
	t.Helper()
	dirs := map[string]string{}
	files, err := filepath.Glob("../../apps/*/root_agent.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no apps found", err)
	}
	for _, file := range files {
		dirs["apps/"+filepath.Base(filepath.Dir(file))] = filepath.Dir(file)
	}
	for name, archive := range readArchives(t, "ok") {
		dirs[name] = unpackArchive(t, archive)
	}
	return dirs
}

// The index has each place where a load finds a state key, an agent or a tool. This keeps the two from
// drifting apart: a new tool kind that reads state is found by both, or fails here.
func TestNamesCoverLoad(t *testing.T) {
	places := 0
	for name, dir := range exampleApps(t) {
		t.Run(name, func(t *testing.T) {
			l := loader.New(testenv.Kinds(), &loader.Options{Offline: true})
			table, err := l.NewNameIndex(dir).Refresh(t.Context())
			if err != nil || len(table.Problems) > 0 {
				t.Fatalf("Refresh() = %v, %v", table.Problems, err)
			}
			app, ds := l.LoadFiles(t.Context(), dir)
			if app == nil {
				t.Skipf("needs another environment: %v", ds)
			}
			defer app.App.Close()
			rev := &store.Revision{App: app.App.Name(), ID: app.App.Revision(), Files: app.Files}
			count := func(key, at string, roles ...loader.NameRole) {
				places++
				file, _, _ := strings.Cut(at, ":")
				found := slices.ContainsFunc(table.Find(loader.StateNames, key), func(u loader.NameUse) bool {
					return u.File == strings.TrimPrefix(file, app.App.Name()+"/") && slices.Contains(roles, u.Role)
				})
				if !found && !strings.HasSuffix(file, ".md") {
					t.Errorf("the index lacks state key %s at %s", key, at)
				}
			}
			for _, agent := range table.Uses {
				if agent.Kind != loader.AgentNames || agent.Role != loader.NameDeclared {
					continue
				}
				for _, o := range l.Origins(t.Context(), rev, agent.Name) {
					for _, p := range append(append(o.Tools, o.Callbacks...), o.StateUse) {
						for _, read := range p.Reads {
							count(read.Key, read.At, loader.NameUsed)
						}
						for _, write := range p.Writes {
							count(write.Key, write.At, loader.NameWritten)
						}
					}
				}
			}
			for _, u := range table.Uses {
				if got := string(table.Text(u.File)[u.Range.Start:u.Range.End]); !u.Exact || got != u.Name {
					t.Errorf("%s at %s %v is not exact, or another text: %q", u.Name, u.File, u.Range, got)
				}
			}
		})
	}
	if places < 50 {
		t.Errorf("compared %d places, want more", places)
	}
}
