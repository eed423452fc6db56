package main

import (
	"bytes"
	"compress/gzip"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the format
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers the format
)

//go:embed scripts
var packageScripts embed.FS

const (
	docsDir   = "/usr/share/doc/agenthost/"
	configDir = "/etc/agenthost/"
)

// writePackages writes a .deb and a .rpm with the program, its systemd unit and its configuration, and
// returns their names. The unit runs with a dynamic user, so the packages create none.
func (r *release) writePackages(b build) ([]string, error) {
	stage, err := os.MkdirTemp("", "agenthost-package-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(stage)
	contents, err := stageContents(stage, b.binary)
	if err != nil {
		return nil, err
	}
	scripts, err := stageScripts(stage)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, format := range []string{"deb", "rpm"} {
		info := nfpm.WithDefaults(&nfpm.Info{
			Name: "agenthost", Arch: b.goarch, Platform: "linux",
			Version: r.packageVersion(), VersionSchema: "none",
			Maintainer: "The agenthost authors", Homepage: r.source, License: "Apache-2.0", Section: "net", Priority: "optional",
			Description: "serves AI agents from folders of YAML\n" +
				"Runs apps in the format of ADK's Agent Config, reloads them when their\nfiles change, and stores their sessions in a database.",
			MTime: r.time, DisableGlobbing: true,
			Overridables: nfpm.Overridables{
				Umask: 0o022, Contents: contents, Scripts: scripts, Recommends: []string{"ca-certificates"},
				RPM: nfpm.RPM{BuildHost: "localhost", Compression: "gzip"},
				Deb: nfpm.Deb{Compression: "gzip"},
			},
		})
		packager, err := nfpm.Get(format)
		if err != nil {
			return nil, err
		}
		name := b.name + "." + format
		f, err := os.Create(filepath.Join(r.out, name))
		if err != nil {
			return nil, err
		}
		if err := errors.Join(packager.Package(info, f), f.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		names = append(names, name)
	}
	return names, nil
}

// stageContents returns the files of both packages. Those that are not files of the repository are
// written below stage.
func stageContents(stage, binary string) (files.Contents, error) {
	unit, err := os.ReadFile("deploy/agenthost.service")
	if err != nil {
		return nil, err
	}
	packaged := bytes.ReplaceAll(unit, []byte("/usr/local/bin/agenthost"), []byte("/usr/bin/agenthost"))
	if !bytes.Contains(packaged, []byte("ExecStart=/usr/bin/agenthost ")) {
		return nil, errors.New("deploy/agenthost.service must start /usr/local/bin/agenthost")
	}
	licenses, err := readGzip("cmd/agenthost/licenses.txt.gz")
	if err != nil {
		return nil, err
	}
	for name, b := range map[string][]byte{"agenthost.service": packaged, "licenses.txt": licenses} {
		if err := os.WriteFile(filepath.Join(stage, name), b, 0o644); err != nil {
			return nil, err
		}
	}
	add := func(source, destination, kind string, mode os.FileMode) *files.Content {
		return &files.Content{Source: source, Destination: destination, Type: kind, FileInfo: &files.ContentFileInfo{Mode: mode}}
	}
	debianLicense, licensesDir := add("LICENSE", docsDir+"copyright", "", 0o644), add("", "/usr/share/licenses/agenthost", files.TypeDir, 0o755)
	debianLicense.Packager, licensesDir.Packager = "deb", "rpm"
	return files.Contents{
		add(binary, "/usr/bin/agenthost", "", 0o755),
		add(filepath.Join(stage, "agenthost.service"), "/usr/lib/systemd/system/agenthost.service", "", 0o644),
		add("deploy/host.yaml", configDir+"host.yaml", files.TypeConfigNoReplace, 0o644),
		add("deploy/policy.yaml", configDir+"policy.yaml", files.TypeConfigNoReplace, 0o644),
		add("deploy/environment", configDir+"environment", files.TypeConfigNoReplace, 0o600),
		add("", configDir, files.TypeDir, 0o755),
		add("", configDir+"apps", files.TypeDir, 0o755),
		add("", docsDir, files.TypeDir, 0o755),
		add("README.md", docsDir+"README.md", "", 0o644),
		add("CHANGELOG.md", docsDir+"CHANGELOG.md", "", 0o644),
		add(filepath.Join(stage, "licenses.txt"), docsDir+"licenses.txt", "", 0o644),
		debianLicense, licensesDir,
		add("LICENSE", "/usr/share/licenses/agenthost/LICENSE", files.TypeRPMLicense, 0o644), // only in the .rpm
	}, nil
}

// stageScripts writes the scripts that run at installation and removal below stage.
func stageScripts(stage string) (nfpm.Scripts, error) {
	s := nfpm.Scripts{
		PostInstall: filepath.Join(stage, "postinstall.sh"),
		PreRemove:   filepath.Join(stage, "preremove.sh"),
		PostRemove:  filepath.Join(stage, "postremove.sh"),
	}
	for _, file := range []string{s.PostInstall, s.PreRemove, s.PostRemove} {
		b, err := packageScripts.ReadFile("scripts/" + filepath.Base(file))
		if err == nil {
			err = os.WriteFile(file, b, 0o755)
		}
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

func readGzip(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// describedVersion matches a tag, or the output of git describe for a commit after it.
var describedVersion = regexp.MustCompile(`^v?(\d+\.\d+\.\d+)(?:-([0-9A-Za-z.]+?))?(?:-(\d+)-g([0-9a-f]+))?(-dirty)?$`)

// packageVersion is the version in the form that dpkg and rpm both order: v1.2.0-rc.1 is 1.2.0~rc.1,
// before 1.2.0, and a commit after a tag is after it. Without a tag it is before all releases, ordered
// by the commit's time.
func (r *release) packageVersion() string {
	m := describedVersion.FindStringSubmatch(r.version)
	if m == nil {
		version := "0.0.0~git" + r.time.Format("20060102150405") + "." + r.commit
		if strings.HasSuffix(r.version, "-dirty") {
			version += ".dirty"
		}
		return version
	}
	version, suffix := m[1], ""
	if m[2] != "" {
		version += "~" + m[2]
	}
	if m[3] != "" {
		suffix += "." + m[3] + ".g" + m[4]
	}
	if m[5] != "" {
		suffix += ".dirty"
	}
	if suffix != "" {
		version += "+" + suffix[1:]
	}
	return version
}
