package main

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sassoftware/go-rpmutils"
)

// Two builds of the packages are equal, whatever the files' times and modes.
func TestPackagesReproducible(t *testing.T) {
	r := newRelease(t)
	written := map[string]string{}
	for round := range 2 {
		for _, b := range fakeBuilds(t, round) {
			names, err := r.writePackages(b)
			failOn(t, err)
			for _, name := range names {
				content := readTestFile(t, filepath.Join(r.out, name))
				if round == 1 && written[name] != content {
					t.Errorf("%s differs", name)
				}
				written[name] = content
			}
		}
	}
	if len(written) != 4 {
		t.Errorf("wrote %d packages, want a .deb and a .rpm for two architectures", len(written))
	}
}

// The rpm names its architecture, license and version; rpm keeps changed configuration, and only root
// reads the file with secrets.
func TestRPM(t *testing.T) {
	r := newRelease(t)
	for i, arch := range []string{"x86_64", "aarch64"} {
		b := fakeBuilds(t, 0)[i]
		_, err := r.writePackages(b)
		failOn(t, err)
		rpm, err := rpmutils.ReadRpm(strings.NewReader(readTestFile(t, filepath.Join(r.out, b.name+".rpm"))))
		failOn(t, err)
		id, err := rpm.Header.GetNEVRA()
		failOn(t, err)
		license, err := rpm.Header.GetString(rpmutils.LICENSE)
		failOn(t, err)
		if id.String() != "agenthost-0:0.1.0-1."+arch+".rpm" || license != "Apache-2.0" {
			t.Errorf("the rpm is %s with license %s", id, license)
		}
		list, err := rpm.Header.GetFiles()
		failOn(t, err)
		files := map[string]rpmutils.FileInfo{}
		for _, f := range list {
			files[f.Name()] = f
			if f.UserName() != "root" || f.GroupName() != "root" || f.Mtime() != int(commitTime.Unix()) {
				t.Errorf("%s belongs to %s:%s, changed at %d", f.Name(), f.UserName(), f.GroupName(), f.Mtime())
			}
		}
		const regular, configNoReplace = 0o100000, rpmutils.RPMFILE_CONFIG | rpmutils.RPMFILE_NOREPLACE
		for name, want := range map[string]struct{ mode, flags int }{
			"/usr/bin/agenthost":                        {regular | 0o755, 0},
			"/usr/lib/systemd/system/agenthost.service": {regular | 0o644, 0},
			"/etc/agenthost/host.yaml":                  {regular | 0o644, configNoReplace},
			"/etc/agenthost/policy.yaml":                {regular | 0o644, configNoReplace},
			"/etc/agenthost/environment":                {regular | 0o600, configNoReplace},
			"/usr/share/licenses/agenthost/LICENSE":     {regular | 0o644, rpmutils.RPMFILE_LICENSE},
		} {
			f := files[name]
			if f == nil || f.Mode() != want.mode || f.Flags() != want.flags {
				t.Errorf("%s: %+v, want mode %o and flags %d", name, f, want.mode, want.flags)
			}
		}
	}
}

// Package versions are in the order of the commits: no tag, a pre-release, the release, a commit
// after it, the next release.
func TestPackageVersions(t *testing.T) {
	var before string
	for _, c := range []struct{ version, want string }{
		{"0123456789ab", "0.0.0~git20231114221320.0123456789ab"},
		{"0123456789ab-dirty", "0.0.0~git20231114221320.0123456789ab.dirty"},
		{"v1.2.0-rc.1", "1.2.0~rc.1"},
		{"v1.2.0-rc.1-4-gabcdef0", "1.2.0~rc.1+4.gabcdef0"},
		{"v1.2.0-rc.2", "1.2.0~rc.2"},
		{"v1.2.0", "1.2.0"},
		{"v1.2.0-3-gabcdef0", "1.2.0+3.gabcdef0"},
		{"v1.2.0-3-gabcdef0-dirty", "1.2.0+3.gabcdef0.dirty"},
		{"1.2.1", "1.2.1"},
	} {
		r := release{version: c.version, commit: "0123456789ab", time: commitTime}
		got := r.packageVersion()
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.version, got, c.want)
		}
		if before != "" {
			if rpmutils.Vercmp(before, got) >= 0 {
				t.Errorf("rpm orders %s not before %s", before, got)
			}
			out, err := exec.Command("dpkg", "--compare-versions", before, "lt", got).CombinedOutput()
			if err != nil && !errors.Is(err, exec.ErrNotFound) || len(out) > 0 {
				t.Errorf("dpkg orders %s not before %s: %s", before, got, out)
			}
		}
		before = got
	}
}

// A unit that starts another program cannot be packaged.
func TestUnitOfOtherProgram(t *testing.T) {
	t.Chdir(t.TempDir())
	writeTestFile(t, "deploy/agenthost.service", "[Service]\nExecStart=/opt/agenthost serve\n")
	if _, err := stageContents(t.TempDir(), "agenthost"); err == nil || err.Error() != "deploy/agenthost.service must start /usr/local/bin/agenthost" {
		t.Error(err)
	}
}
