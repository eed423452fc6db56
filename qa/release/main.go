// Command release builds a release's archives: one for each platform, with its SBOM (CycloneDX 1.6)
// and the SHA-256 checksums of all files. Two builds from one commit with one Go version are equal,
// byte by byte: nothing depends on the build's time, folder or user.
package main

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// defaultPlatforms are what users run servers and editors on.
const defaultPlatforms = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64"

// included are each archive's files next to the binary.
var included = []string{"LICENSE", "README.md", "CHANGELOG.md"}

// release is one program version, built from the working folder.
type release struct {
	version string
	commit  string
	time    time.Time // the commit's
	out     string
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run() error {
	r := release{}
	flag.StringVar(&r.version, "version", "", "version of the release, such as v0.1.0")
	flag.StringVar(&r.out, "out", "dist", "folder for the archives")
	platforms := flag.String("platforms", defaultPlatforms, "platforms to build, as OS/ARCH with commas")
	flag.Parse()
	if err := r.readCommit(); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	var files []string
	for platform := range strings.SplitSeq(*platforms, ",") {
		goos, goarch, ok := strings.Cut(platform, "/")
		if !ok {
			return fmt.Errorf("platform must be OS/ARCH, got %q", platform)
		}
		built, err := r.buildPlatform(goos, goarch)
		if err != nil {
			return fmt.Errorf("building for %s: %w", platform, err)
		}
		files = append(files, built...)
	}
	return r.writeChecksums(files)
}

// readCommit takes the commit, its time and the default version from git.
func (r *release) readCommit() error {
	out, err := exec.Command("git", "log", "-1", "--format=%h %ct", "--abbrev=12").Output()
	if err != nil {
		return fmt.Errorf("reading the commit: %w", err)
	}
	commit, seconds, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return fmt.Errorf("time of the commit must be a number, got %q", seconds)
	}
	r.commit, r.time = commit, time.Unix(unix, 0).UTC()
	if r.version != "" {
		return nil
	}
	out, err = exec.Command("git", "describe", "--tags", "--always", "--dirty").Output()
	if err != nil {
		return fmt.Errorf("describing the commit: %w", err)
	}
	r.version = strings.TrimSpace(string(out))
	return nil
}

// buildPlatform builds, describes and packs the program for one platform, and returns the file
// names that it wrote.
func (r *release) buildPlatform(goos, goarch string) ([]string, error) {
	dir, err := os.MkdirTemp("", "agenthost-dist-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "agenthost")
	if goos == "windows" {
		binary += ".exe"
	}
	build := exec.Command("go", "build", "-trimpath", "-tags=grpcnotrace",
		"-ldflags=-s -w -buildid= -X main.release="+r.version+" -X main.commit="+r.commit, "-o", binary, "./cmd/agenthost")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch, "GOFLAGS=")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return nil, err
	}
	name := fmt.Sprintf("agenthost_%s_%s_%s", strings.TrimPrefix(r.version, "v"), goos, goarch)
	archive, err := r.packArchive(name, append([]string{binary}, included...), goos)
	if err != nil {
		return nil, err
	}
	bom, err := r.writeBOM(name, binary)
	if err != nil {
		return nil, err
	}
	return []string{archive, bom}, nil
}

// writeChecksums writes checksums.txt in the form that `sha256sum --check` reads.
func (r *release) writeChecksums(files []string) error {
	slices.Sort(files)
	var sums strings.Builder
	for _, name := range files {
		b, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(b), name)
	}
	fmt.Print(sums.String())
	return os.WriteFile(filepath.Join(r.out, "checksums.txt"), []byte(sums.String()), 0o644)
}
