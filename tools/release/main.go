// Command release builds the files of a release: an archive for each platform with its SBOM
// (CycloneDX 1.6), .deb and .rpm packages, a container image for all Linux platforms, a Homebrew
// formula, an install script, and the SHA-256 checksums of all files. With a key it signs the
// checksums. Two builds from one commit with one Go version are equal, byte by byte: nothing depends
// on the build's time, folder or user.
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
	source  string    // the repository's address, or empty
	out     string
}

// build is the program for one platform.
type build struct {
	goos, goarch string
	binary       string // its path
	name         string // the release files' name, without extension
}

func main() {
	if err := buildRelease(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func buildRelease(args []string) error {
	r := release{}
	flags := flag.NewFlagSet("release", flag.ExitOnError)
	flags.StringVar(&r.version, "version", "", "version of the release, such as v0.1.0")
	flags.StringVar(&r.source, "source", "", "address of the repository, such as https://github.com/OWNER/agenthost (default: from go.mod)")
	flags.StringVar(&r.out, "out", "dist", "folder for the files")
	platforms := flags.String("platforms", defaultPlatforms, "platforms to build, as OS/ARCH with commas")
	_ = flags.Parse(args) // it exits on errors
	if err := r.readCommit(); err != nil {
		return err
	}
	if r.source == "" {
		source, err := readModuleSource("go.mod")
		if err != nil {
			return err
		}
		r.source = source
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "agenthost-dist-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	var builds []build
	for platform := range strings.SplitSeq(*platforms, ",") {
		b, err := r.buildPlatform(platform, work)
		if err != nil {
			return fmt.Errorf("building for %s: %w", platform, err)
		}
		builds = append(builds, b)
	}
	return r.writeFiles(builds)
}

// writeFiles writes the release files of all builds, and their checksums.
func (r *release) writeFiles(builds []build) error {
	var files []string
	for _, b := range builds {
		written, err := r.writePlatform(b)
		if err != nil {
			return fmt.Errorf("packing %s: %w", b.name, err)
		}
		files = append(files, written...)
	}
	image, err := r.writeImage(builds)
	if err != nil {
		return fmt.Errorf("building the image: %w", err)
	}
	formula, err := r.writeFormula(builds)
	if err != nil {
		return fmt.Errorf("writing the formula: %w", err)
	}
	installer, err := r.writeInstaller()
	if err != nil {
		return fmt.Errorf("writing the install script: %w", err)
	}
	for _, file := range []string{image, formula, installer} {
		if file != "" {
			files = append(files, file)
		}
	}
	sums, err := r.writeChecksums(files)
	if err != nil {
		return err
	}
	fmt.Print(sums)
	return r.signChecksums(os.Getenv("DIST_KEY"))
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

// readModuleSource returns the address of a module's repository, or "" if its path has no host.
func readModuleSource(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("reading the module path: %w", err)
	}
	first, _, _ := strings.Cut(string(b), "\n")
	path := strings.TrimSpace(strings.TrimPrefix(first, "module"))
	if host, _, _ := strings.Cut(path, "/"); !strings.Contains(host, ".") {
		return "", nil
	}
	return "https://" + path, nil
}

// buildPlatform builds the program for one platform, below the folder work.
func (r *release) buildPlatform(platform, work string) (build, error) {
	goos, goarch, ok := strings.Cut(platform, "/")
	if !ok {
		return build{}, fmt.Errorf("platform must be OS/ARCH, got %q", platform)
	}
	b := build{goos: goos, goarch: goarch, name: fmt.Sprintf("agenthost_%s_%s_%s", r.fileVersion(), goos, goarch)}
	b.binary = filepath.Join(work, b.name, "agenthost")
	if goos == "windows" {
		b.binary += ".exe"
	}
	command := exec.Command("go", "build", "-trimpath", "-tags=grpcnotrace",
		"-ldflags=-s -w -buildid= -X main.release="+r.version+" -X main.commit="+r.commit, "-o", b.binary, "./cmd/agenthost")
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch, "GOFLAGS=")
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	return b, command.Run()
}

// fileVersion is the version in file names.
func (r *release) fileVersion() string { return strings.TrimPrefix(r.version, "v") }

// writePlatform describes and packs the program for one platform, and returns the file names that it
// wrote.
func (r *release) writePlatform(b build) ([]string, error) {
	archive, err := r.packArchive(b.name, append([]string{b.binary}, included...), b.goos)
	if err != nil {
		return nil, err
	}
	bom, err := r.writeBOM(b.name, b.binary)
	if err != nil {
		return nil, err
	}
	files := []string{archive, bom}
	if b.goos == "linux" {
		packages, err := r.writePackages(b)
		if err != nil {
			return nil, err
		}
		files = append(files, packages...)
	}
	return files, nil
}

// writeChecksums writes checksums.txt in the form that `sha256sum --check` reads, and returns it.
func (r *release) writeChecksums(files []string) (string, error) {
	slices.Sort(files)
	var sums strings.Builder
	for _, name := range files {
		b, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(b), name)
	}
	return sums.String(), os.WriteFile(filepath.Join(r.out, "checksums.txt"), []byte(sums.String()), 0o644)
}
