package spec_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"agenthost/pkg/spec"
)

var update = flag.Bool("update", false, "update the golden files")

// TestBrokenDocuments runs testdata/err: each file has a comment, a document and its
// problems as printed.
func TestBrokenDocuments(t *testing.T) {
	files, err := filepath.Glob("testdata/err/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in testdata/err: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			in, want := &archive.Files[0], &archive.Files[1]
			_, problems := spec.Parse(in.Name, in.Data)
			got := formatText(t, problems)
			if *update {
				want.Data = []byte(got)
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(want.Data), got); diff != "" {
				t.Errorf("Parse(%s) (-want +got):\n%s", file, diff)
			}
			if len(problems) == 0 {
				t.Errorf("Parse(%s) reported no problem", file)
			}
		})
	}
}

func formatText(t testing.TB, ds spec.Diagnostics) string {
	t.Helper()
	var b strings.Builder
	if err := ds.WriteText(&b); err != nil {
		t.Fatalf("WriteText: %v", err)
	}
	return b.String()
}
