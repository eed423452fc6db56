package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The formula downloads each platform's archive, with its checksum, and is valid Ruby.
func TestFormula(t *testing.T) {
	r := newRelease(t)
	var builds []build
	for _, platform := range strings.Split(defaultPlatforms, ",") {
		goos, goarch, _ := strings.Cut(platform, "/")
		b := build{goos: goos, goarch: goarch, name: "agenthost_0.1.0_" + goos + "_" + goarch}
		writeTestFile(t, filepath.Join(r.out, b.name+".tar.gz"), platform)
		builds = append(builds, b)
	}
	name, err := r.writeFormula(builds)
	failOn(t, err)
	file := filepath.Join(r.out, name)
	formula := readTestFile(t, file)
	rest := formula
	for _, next := range []string{
		"class Agenthost < Formula", `homepage "https://example.com/agenthost"`, `version "0.1.0"`,
		"on_macos do", "on_intel do", archiveLines("darwin/amd64"), "on_arm do", archiveLines("darwin/arm64"),
		"on_linux do", "on_intel do", archiveLines("linux/amd64"), "on_arm do", archiveLines("linux/arm64"),
		`bin.install "agenthost"`,
	} {
		_, after, found := strings.Cut(rest, next)
		if !found {
			t.Errorf("the formula lacks %q at its place:\n%s", next, formula)
		}
		rest = after
	}
	if strings.Contains(formula, "windows") {
		t.Errorf("the formula has an archive for Windows:\n%s", formula)
	}
	opened, closed := regexp.MustCompile(`(?m)^ *(class|def) | do$`).FindAllString(formula, -1), regexp.MustCompile(`(?m)^ *end$`).FindAllString(formula, -1)
	if len(opened) != len(closed) {
		t.Errorf("the formula has %d blocks and %d ends:\n%s", len(opened), len(closed), formula)
	}
	if ruby, err := exec.LookPath("ruby"); err != nil {
		t.Log("ruby is not installed: only the formula's blocks are checked")
	} else if out, err := exec.Command(ruby, "-wc", file).CombinedOutput(); err != nil || string(out) != "Syntax OK\n" {
		t.Errorf("ruby: %v\n%s", err, out)
	}
}

func archiveLines(platform string) string {
	name := "agenthost_0.1.0_" + strings.Replace(platform, "/", "_", 1) + ".tar.gz"
	return fmt.Sprintf("url \"https://example.com/agenthost/releases/download/v0.1.0/%s\"\n      sha256 \"%x\"\n", name, sha256.Sum256([]byte(platform)))
}

// Without the repository's address there is no formula.
func TestFormulaWithoutSource(t *testing.T) {
	r := newRelease(t)
	r.source = ""
	if name, err := r.writeFormula(nil); err != nil || name != "" {
		t.Errorf("wrote %q, %v", name, err)
	}
	if files, err := os.ReadDir(r.out); err != nil || len(files) > 0 {
		t.Errorf("wrote %v, %v", files, err)
	}
}
