package main

import (
	"crypto/sha256"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

var (
	//go:embed install.sh
	installScript string
	//go:embed agenthost.rb.tmpl
	formulaText string

	formulaTemplate = template.Must(template.New("agenthost.rb").Parse(formulaText))
)

// formulaArchive is an archive that Homebrew downloads.
type formulaArchive struct{ Arch, Name, SHA256 string }

// releaseURL is the address of the release's files, or "" without a repository.
func (r *release) releaseURL() string {
	if r.source == "" {
		return ""
	}
	return r.source + "/releases/download/" + r.version
}

// writeFormula writes a Homebrew formula for the builds' archives, and returns its name. Without a
// repository there is no address to download from, so there is no formula.
func (r *release) writeFormula(builds []build) (string, error) {
	if r.source == "" {
		fmt.Fprintln(os.Stderr, "release: no Homebrew formula; hint: set SOURCE to the address of the repository")
		return "", nil
	}
	archives := map[string][]formulaArchive{}
	for _, b := range builds {
		if b.goos == "windows" {
			continue
		}
		name := b.name + ".tar.gz"
		content, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			return "", err
		}
		arch := map[string]string{"amd64": "intel", "arm64": "arm"}[b.goarch]
		if arch == "" {
			continue // Homebrew runs on no other processor
		}
		archives[b.goos] = append(archives[b.goos], formulaArchive{Arch: arch, Name: name, SHA256: fmt.Sprintf("%x", sha256.Sum256(content))})
	}
	var text strings.Builder
	err := formulaTemplate.Execute(&text, map[string]any{
		"Homepage": r.source, "Version": r.fileVersion(), "URL": r.releaseURL(), "MacOS": archives["darwin"], "Linux": archives["linux"],
	})
	if err != nil {
		return "", err
	}
	return "agenthost.rb", os.WriteFile(filepath.Join(r.out, "agenthost.rb"), []byte(text.String()), 0o644)
}

// writeInstaller writes the install script for this version, and returns its name.
func (r *release) writeInstaller() (string, error) {
	text := strings.NewReplacer("@VERSION@", r.fileVersion(), "@RELEASE@", r.releaseURL()).Replace(installScript)
	return "install.sh", os.WriteFile(filepath.Join(r.out, "install.sh"), []byte(text), 0o755)
}
