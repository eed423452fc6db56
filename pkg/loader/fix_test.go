package loader

import (
	"os"
	"path/filepath"
	"testing"
)

// TestReplaceFile expects a file to be replaced atomically, and to stay unchanged if it
// was modified since it was read. No temporary files remain.
func TestReplaceFile(t *testing.T) {
	for _, tt := range []struct{ name, content, want, problem string }{
		{"as it was read", "old", "new", ""},
		{"modified in the meantime", "theirs", "theirs", "file changed since it was read: run check again"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "sub", "a.yaml")
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(tt.content), 0o600); err != nil {
				t.Fatal(err)
			}
			root, err := os.OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			err = replaceFile(root, "sub/a.yaml", []byte("old"), []byte("new"))
			if got := errorText(err); got != tt.problem {
				t.Errorf("rewrite: %q, want %q", got, tt.problem)
			}
			b, _ := os.ReadFile(file)
			info, _ := os.Stat(file)
			if string(b) != tt.want || info.Mode().Perm() != 0o600 {
				t.Errorf("the file contains %q with mode %v, want %q and -rw-------", b, info.Mode(), tt.want)
			}
			if entries, _ := os.ReadDir(filepath.Dir(file)); len(entries) != 1 {
				t.Errorf("%d files in the folder, want 1", len(entries))
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
