package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// commitTime is the commit's time in tests.
var commitTime = time.Unix(1.7e9, 0).UTC()

// newRelease returns a release below the repository's root, which becomes the working folder.
func newRelease(t *testing.T) *release {
	t.Helper()
	t.Chdir("../..")
	return &release{version: "v0.1.0", commit: "0123456789ab", time: commitTime, source: "https://example.com/agenthost", out: t.TempDir()}
}

// fakeBuilds returns Linux builds whose program is not a program. Its file has another time and mode
// in each round, as it has on another machine.
func fakeBuilds(t *testing.T, round int) []build {
	t.Helper()
	var builds []build
	for _, arch := range []string{"amd64", "arm64"} {
		binary := filepath.Join(t.TempDir(), "agenthost")
		writeTestFile(t, binary, "program for "+arch)
		failOn(t, os.Chmod(binary, []os.FileMode{0o600, 0o755}[round]))
		failOn(t, os.Chtimes(binary, time.Time{}, time.Unix(int64(round)*1e6, 0)))
		builds = append(builds, build{goos: "linux", goarch: arch, binary: binary, name: "agenthost_0.1.0_linux_" + arch})
	}
	return builds
}

func failOn(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func writeTestFile(t *testing.T, path, text string) {
	t.Helper()
	failOn(t, os.MkdirAll(filepath.Dir(path), 0o755))
	failOn(t, os.WriteFile(path, []byte(text), 0o644))
}

func readTestFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	failOn(t, err)
	return string(b)
}

// The repository's address is the module path if that has a host, and otherwise unknown.
func TestModuleSource(t *testing.T) {
	for module, want := range map[string]string{
		"module agenthost\n\ngo 1.26.0\n":                "",
		"module github.com/you/agenthost\n\ngo 1.26.0\n": "https://github.com/you/agenthost",
	} {
		file := filepath.Join(t.TempDir(), "go.mod")
		writeTestFile(t, file, module)
		if got, err := readModuleSource(file); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", module, got, err, want)
		}
	}
}

// A platform without a slash is an error that names it.
func TestPlatformInvalid(t *testing.T) {
	r := newRelease(t)
	if _, err := r.buildPlatform("linux", t.TempDir()); err == nil || err.Error() != `platform must be OS/ARCH, got "linux"` {
		t.Error(err)
	}
}
