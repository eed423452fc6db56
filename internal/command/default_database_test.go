package command

import (
	"os"
	"path/filepath"
	"testing"
)

// Artifacts are in a local folder by default, which replicas do not share: with sessions on a server it
// is named, so that serve can warn.
func TestLocalArtifacts(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "data")
	t.Chdir(filepath.Dir(folder))
	for _, c := range []struct{ sessions, artifacts, want string }{
		{"postgres://db/agents", "", folder},
		{"mysql://user:secret@db/agents", "", folder},
		{"postgres://db/agents", "gs://bucket", ""},
		{"sqlite:///data/agenthost.db", "", ""},
		{"memory:", "", ""},
	} {
		f := StoreFlags{SessionDB: c.sessions, artifacts: c.artifacts}
		if got := f.LocalArtifacts(); got != c.want {
			t.Errorf("LocalArtifacts with sessions in %s and artifacts %q = %q, want %q", c.sessions, c.artifacts, got, c.want)
		}
	}
}

// The default database is next to the app, and what may surprise has a notice.
func TestFindDefaultDatabase(t *testing.T) {
	for _, c := range []struct {
		name   string
		files  []string
		dir    string
		url    string
		notice string
	}{
		{"app", []string{"apps/hello/root_agent.yaml"}, "apps/hello", "sqlite:///apps/data/agenthost.db", ""},
		{"folder of apps", []string{"apps/hello/root_agent.yaml"}, "apps", "sqlite:///apps/data/agenthost.db", ""},
		{"empty folder", []string{"apps/README.md"}, "apps", "sqlite:///apps/data/agenthost.db", ""},
		{"missing folder", nil, "hello", "sqlite:///data/agenthost.db", ""},
		{"git repository", []string{"hello/app.yaml", "hello/.git"}, "hello", "sqlite:///hello/data/agenthost.db", ""},
		{"current folder", nil, ".", "sqlite:///data/agenthost.db", ""},
		{"current folder of 0.1.0", []string{"apps/hello/app.yaml", "data/agenthost.db"}, "apps/hello", "sqlite:///data/agenthost.db", "using the sessions in data/agenthost.db; to find them from each folder, move them to apps/data"},
		{"app folder of 0.1.0", []string{"apps/hello/app.yaml", "apps/hello/data/agenthost.db"}, "apps/hello", "sqlite:///apps/hello/data/agenthost.db", "using the sessions in apps/hello/data/agenthost.db; to find them from each folder, move them to apps/data"},
		{"both", []string{"apps/hello/app.yaml", "apps/data/agenthost.db", "data/agenthost.db"}, "apps/hello", "sqlite:///apps/data/agenthost.db", "using the sessions in apps/data/agenthost.db; data/agenthost.db has others: --session-db sqlite:///data/agenthost.db uses it"},
		{"question mark", []string{"a?b/hello/app.yaml"}, "a?b/hello", "sqlite:///data/agenthost.db", "the path of a?b/data contains ?: sessions are in data/agenthost.db of the current folder"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			t.Chdir(root)
			for _, file := range c.files {
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got := findDefaultDatabase(c.dir)
			if got.url != c.url || got.notice != c.notice {
				t.Errorf("%s with the notice %q, want %s with %q", got.url, got.notice, c.url, c.notice)
			}
		})
	}
}

// An app outside of the current folder has an absolute URL.
func TestFindDefaultDatabaseElsewhere(t *testing.T) {
	root := t.TempDir()
	t.Chdir(t.TempDir())
	if got, want := findDefaultDatabase(filepath.Join(root, "hello")).url, "sqlite:///"+filepath.ToSlash(filepath.Join(root, "data", "agenthost.db")); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
