package loader_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"agenthost/pkg/loader"
)

// TestMistakes covers what people who know other programs write. Each archive is a table: a folder
// is a small app with one mistake, and its file want has the printed problems. Every mistake is
// reported once, with its line, and with a hint that leads to the fix. Line ends of Windows and a
// byte order mark change nothing of that.
func TestMistakes(t *testing.T) {
	count := 0
	for name, archive := range readArchives(t, "mistakes") {
		var apps []string
		for _, f := range archive.Files {
			if app, _, _ := strings.Cut(f.Name, "/"); !slices.Contains(apps, app) {
				apps = append(apps, app)
			}
		}
		count += len(apps)
		table := &txtar.Archive{Comment: archive.Comment}
		for _, app := range apps {
			var files []txtar.File // stay as they are if -run leaves the app out
			for _, f := range archive.Files {
				if strings.HasPrefix(f.Name, app+"/") {
					files = append(files, f)
				}
			}
			t.Run(name+"/"+app, func(t *testing.T) { files = checkMistake(t, archive, app) })
			table.Files = append(table.Files, files...)
		}
		if isUpdating() {
			if err := os.WriteFile(filepath.Join("testdata", "mistakes", name+".txtar"), txtar.Format(table), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if count < 60 {
		t.Errorf("testdata/mistakes has %d mistakes, want at least 60", count)
	}
}

// checkMistake compares one app's problems with its file want. It returns the app's files, with
// want as it should be.
func checkMistake(t *testing.T, archive *txtar.Archive, app string) []txtar.File {
	t.Helper()
	top := t.TempDir()
	want := txtar.File{Name: app + "/want"}
	var files []txtar.File
	for _, f := range archive.Files {
		folder, _, _ := strings.Cut(f.Name, "/")
		switch {
		case folder != app:
		case f.Name == want.Name:
			want.Data = f.Data
		default:
			files = append(files, f)
			write(t, filepath.Join(top, f.Name), string(f.Data))
		}
	}
	dir := filepath.Join(top, app)
	opts := newOptions(dir)
	opts.Policy = readPolicy(t)
	ds := checkWith(t, dir, opts)
	got := renderText(t, ds)
	for _, f := range files {
		write(t, filepath.Join(top, f.Name), "\ufeff"+strings.ReplaceAll(string(f.Data), "\n", "\r\n"))
	}
	if diff := cmp.Diff(got, renderText(t, checkWith(t, dir, opts))); diff != "" {
		t.Errorf("Check of the files with a byte order mark and line ends of Windows (-without +with):\n%s", diff)
	}
	for _, f := range files {
		write(t, filepath.Join(top, f.Name), string(f.Data))
	}
	if diff := cmp.Diff(string(want.Data), got); diff != "" && !isUpdating() {
		t.Errorf("Check (-want +got):\n%s", diff)
	}
	if len(ds) != 1 && app != "bare_placeholder" { // which is reported where it is and where its parameter is
		t.Errorf("Check found %d problems, want one:\n%s", len(ds), got)
	}
	for _, d := range ds {
		if d.Hint == "" && !strings.Contains(d.Message, "; write ") && !strings.Contains(d.Message, "; did you mean ") {
			t.Errorf("%s: no hint", d)
		}
	}
	checkPlaces(t, top, ds)
	return append(files, txtar.File{Name: want.Name, Data: []byte(got)})
}

// readPolicy returns the policy of a host that allows the programs in testdata/mistakes.
func readPolicy(t *testing.T) *loader.Policy {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	write(t, file, "grants: [{commands: [[npx, '...']], env: [GITHUB_TOKEN, LEVEL], network: [crm.example, mcp.example, api.openai.com]}]\n")
	policy, err := loader.ReadPolicy(file, loader.PolicyHost{})
	if err != nil {
		t.Fatal(err)
	}
	return policy
}
