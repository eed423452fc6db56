package loader_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
)

const (
	skillsAgent = "name: a\ninstruction: x\ntools:\n  - skills: {from: [skills]}\n"
	skillHead   = "---\nname: pdf\ndescription: d\n---\n"
)

// TestSkillFolders covers folders that YAML tests cannot contain.
func TestSkillFolders(t *testing.T) {
	for _, tt := range []struct {
		name    string
		prepare func(t *testing.T, skill string) error
		want    string
	}{
		{"a link to a secret", func(_ *testing.T, skill string) error {
			return os.Symlink("../../.env", filepath.Join(skill, "guide.md"))
		}, "app/skills/pdf/guide.md is a link, which skills must not have"},
		{"a link to a folder", func(_ *testing.T, skill string) error {
			return os.Symlink("/etc", filepath.Join(skill, "references"))
		}, "app/skills/pdf/references is a link, which skills must not have"},
		{"a skill that is a link", func(_ *testing.T, skill string) error {
			return os.Symlink("pdf", skill+"-copy")
		}, "app/skills/pdf-copy is a link, which skills must not have"},
		{"a large file", func(t *testing.T, skill string) error {
			write(t, filepath.Join(skill, "a.bin"), "")
			return os.Truncate(filepath.Join(skill, "a.bin"), 1<<30)
		}, "file app/skills/pdf/a.bin exceeds the limit of 4 MiB for skill files"},
		{"large in total", func(t *testing.T, skill string) error {
			for i := range 5 {
				write(t, filepath.Join(skill, strconv.Itoa(i)), strings.Repeat("x", 4<<20))
			}
			return nil
		}, "skill app/skills/pdf exceeds the limit of 16 MiB"},
		{"many files", func(t *testing.T, skill string) error {
			for i := range 1001 {
				write(t, filepath.Join(skill, strconv.Itoa(i)), "")
			}
			return nil
		}, "folder app/skills/pdf has more than 1000 entries"},
		{"deep folders", func(_ *testing.T, skill string) error {
			return os.MkdirAll(filepath.Join(skill, strings.Repeat("x/", 9)), 0o755)
		}, "skill app/skills/pdf has folders more than 8 levels deep"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "app")
			write(t, filepath.Join(dir, "root_agent.yaml"), skillsAgent)
			write(t, filepath.Join(dir, ".env"), "TOKEN=canary")
			write(t, filepath.Join(dir, "skills/pdf/SKILL.md"), skillHead)
			if err := tt.prepare(t, filepath.Join(dir, "skills/pdf")); err != nil {
				t.Fatal(err)
			}
			ds := loader.New(testenv.Kinds(), newOptions(dir)).Check(t.Context(), dir)
			want := strings.Replace(tt.want, "app/", filepath.ToSlash(dir)+"/", 1)
			if len(ds) != 1 || ds[0].Message != want || ds[0].Pos.Line != 4 || ds[0].Pos.Col != 21 {
				t.Errorf("Check = %v, want %s", ds, want)
			}
		})
	}
}

// TestSkillRevision expects a change to any skill file to be another revision, and hidden files not
// to belong to it.
func TestSkillRevision(t *testing.T) {
	files := map[string]string{"root_agent.yaml": skillsAgent, "skills/pdf/SKILL.md": skillHead, "skills/pdf/references/a.md": "a"}
	before := loadRevision(t, files, nil)
	files["skills/pdf/.hidden/b"], files["skills/pdf/__pycache__/c"], files["skills/pdf/.env"] = "x", "x", "x"
	if after := loadRevision(t, files, nil); after != before {
		t.Errorf("hidden files: revision %s, want %s", after, before)
	}
	files["skills/pdf/references/a.md"] = "b"
	if after := loadRevision(t, files, nil); after == before {
		t.Error("a change of a file keeps the revision")
	}
}
