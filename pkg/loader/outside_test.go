//go:build unix

package loader_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
)

const irregularSuffix = " is not a regular app file: it is a folder, a pipe, a device, or a link that leaves the app folder [file]"

// TestFilesOutsideRejected covers everything in and around an app folder that is not the app's
// regular file: paths and links that leave it, link cycles, pipes, devices and folders. Each is
// rejected at its position without blocking.
func TestFilesOutsideRejected(t *testing.T) {
	for _, tt := range []struct{ name, app, agent, want string }{
		{"a path up", "", "sub_agents: [{config_path: ../other/root_agent.yaml}]", "app/root_agent.yaml:3:28: config_path ../other/root_agent.yaml is outside this file's folder [path]"},
		{"a path down and up", "", "sub_agents: [{config_path: a/../../other/root_agent.yaml}]", "app/root_agent.yaml:3:28: config_path a/../../other/root_agent.yaml is outside this file's folder [path]"},
		{"a whole path", "", "sub_agents: [{config_path: /etc/passwd}]", "app/root_agent.yaml:3:28: config_path /etc/passwd is outside this file's folder [path]"},
		{"a Windows path", "", `sub_agents: [{config_path: ..\other.yaml}]`, `app/root_agent.yaml:3:28: config_path ..\other.yaml is outside this file's folder [path]`},
		{"a link out", "", "sub_agents: [{config_path: link}]", "app/root_agent.yaml:3:28: app/link" + irregularSuffix},
		{"a link to a device", "", "sub_agents: [{config_path: zero}]", "app/root_agent.yaml:3:28: app/zero" + irregularSuffix},
		{"a pipe", "", "sub_agents: [{config_path: pipe}]", "app/root_agent.yaml:3:28: app/pipe" + irregularSuffix},
		{"a link cycle", "", "sub_agents: [{config_path: round}]", "app/root_agent.yaml:3:28: app/round" + irregularSuffix},
		{"a folder", "", "sub_agents: [{config_path: folder}]", "app/root_agent.yaml:3:28: app/folder" + irregularSuffix},
		{"a text file that is a link", "", "description: ${file:link}", "app/root_agent.yaml:3:14: app/link" + irregularSuffix},
		{"a text file that is a pipe", "", "description: ${file:pipe}", "app/root_agent.yaml:3:14: app/pipe" + irregularSuffix},
		{"a text file elsewhere", "", "description: ${file:/etc/hostname}", "app/root_agent.yaml:3:14: /etc/hostname is outside of the app folder [file]"},
		{"a secret that is a pipe", `models: {m: {provider: gemini, model: gemini-x, api_key: "${secret:PIPE}"}}`, "", "app/app.yaml:1:59: cannot read secret PIPE: not a regular file [file]"},
		{"a script that is a device", "models: {m: {provider: scripted, script: zero}}", "", "app/app.yaml:1:42: app/zero" + irregularSuffix},
		{"a script elsewhere", "models: {m: {provider: scripted, script: ../s.yaml}}", "", "app/app.yaml:1:42: ../s.yaml is outside of the app folder [path]"},
		{"an include that is a pipe", "include: [pipe]", "", "app/app.yaml:1:11: app/pipe" + irregularSuffix},
		{"a shared file that is a device", "include: [../zero.yaml]", "", "app/app.yaml:1:11: zero.yaml" + irregularSuffix},
		{"a shared file that is a link", "include: [../on.yaml]", "", "app/app.yaml:1:11: on.yaml" + irregularSuffix},
		{"an include two folders up", "include: [../../x.yaml]", "", "app/app.yaml:1:11: include ../../x.yaml is outside of the app folder [path]"},
		{"a root agent elsewhere", "root_agent: ../other/root_agent.yaml", "", "app/app.yaml:1:13: file ../other/root_agent.yaml not found in the app folder [file]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := newSurroundedApp(t)
			write(t, filepath.Join(dir, "root_agent.yaml"), "name: a\ninstruction: Answer.\n"+tt.agent)
			if tt.app != "" {
				write(t, filepath.Join(dir, "app.yaml"), tt.app)
			}
			opts := &loader.Options{Env: lookUpEnv, Secrets: filepath.Join(dir, "..", "secrets")}
			var got []string
			for _, d := range loader.New(testenv.Kinds(), opts).Check(t.Context(), dir) {
				got = append(got, strings.ReplaceAll(d.String(), filepath.ToSlash(filepath.Dir(dir))+"/", ""))
			}
			if diff := cmp.Diff([]string{tt.want}, got); diff != "" {
				t.Errorf("Check (-want +got):\n%s", diff)
			}
		})
	}
}

// TestIrregularFiles covers an app's optional files, including tests, that are not regular files.
// They are reported, not treated as missing. Editors' lock files are ignored.
func TestIrregularFiles(t *testing.T) {
	const message = "not a regular app file: it is a folder, a pipe, a device, or a link that leaves the app folder [file]"
	for _, tt := range []struct{ from, to, want string }{
		{"pipe", "app.yaml", "app/app.yaml: " + message},
		{"folder", "app.yaml", "app/app.yaml: " + message},
		{"link", "app.prod.yaml", "app/app.prod.yaml: " + message},
		{"pipe", "root_agent.test.yaml", "app/root_agent.test.yaml: " + message},
		{"zero", "folder/more.test.yaml", "app/folder/more.test.yaml: " + message},
		{"link", "root_agent.test.yaml", "app/root_agent.test.yaml: " + message},
		{"round", ".#root_agent.test.yaml", ""},
		{"pipe", ".env", "app: cannot read the app's folder: reading app/.env: not a regular file [file]"},
	} {
		t.Run(tt.from+" "+tt.to, func(t *testing.T) {
			dir := newSurroundedApp(t)
			write(t, filepath.Join(dir, "root_agent.yaml"), "name: a\ninstruction: Answer.\n")
			if err := os.Rename(filepath.Join(dir, tt.from), filepath.Join(dir, tt.to)); err != nil {
				t.Fatal(err)
			}
			ds := loader.New(testenv.Kinds(), &loader.Options{Env: lookUpEnv, Overlay: "prod"}).Check(t.Context(), dir)
			if strings.ReplaceAll(strings.Join(ds.Strings(), "\n"), filepath.ToSlash(filepath.Dir(dir))+"/", "") != tt.want {
				t.Errorf("Check = %q, want %q", ds.Strings(), tt.want)
			}
		})
	}
}

// newSurroundedApp returns an app folder with irregular files of all kinds in and around it.
// Opening a pipe here would block.
func newSurroundedApp(t *testing.T) string {
	t.Helper()
	top := t.TempDir()
	dir := filepath.Join(top, "app")
	write(t, filepath.Join(top, "other", "root_agent.yaml"), "name: other\ninstruction: x\n")
	write(t, filepath.Join(dir, "folder", "x"), "x")
	write(t, filepath.Join(top, "secrets", "SET"), "x")
	for name, target := range map[string]string{
		"app/link": "../other/root_agent.yaml", "app/zero": "/dev/zero", "app/round": "round", "zero.yaml": "/dev/zero", "on.yaml": "/etc/hostname",
	} {
		if err := os.Symlink(target, filepath.Join(top, filepath.FromSlash(name))); err != nil {
			t.Skipf("links are not supported: %v", err)
		}
	}
	for _, name := range []string{"app/pipe", "secrets/PIPE"} {
		if err := syscall.Mkfifo(filepath.Join(top, filepath.FromSlash(name)), 0o644); err != nil {
			t.Skipf("pipes are not supported: %v", err)
		}
	}
	return dir
}
