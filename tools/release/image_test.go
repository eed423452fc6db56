package main

import (
	"archive/tar"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// readImage unpacks an OCI layout and returns its image, the only entry.
func readImage(t *testing.T, file string) v1.ImageIndex {
	t.Helper()
	dir := t.TempDir()
	f, err := os.Open(file)
	failOn(t, err)
	defer f.Close()
	unpackTar(t, f, dir)
	index, err := layout.ImageIndexFromPath(dir)
	failOn(t, err)
	manifest, err := index.IndexManifest()
	failOn(t, err)
	if len(manifest.Manifests) != 1 {
		t.Fatalf("the layout has %d entries, want 1", len(manifest.Manifests))
	}
	image, err := index.ImageIndex(manifest.Manifests[0].Digest)
	failOn(t, err)
	return image
}

// unpackTar writes an archive's files and folders below dir. As root they get the archive's owners.
func unpackTar(t *testing.T, r io.Reader, dir string) {
	t.Helper()
	archive := tar.NewReader(r)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		failOn(t, err)
		if !filepath.IsLocal(h.Name) {
			t.Fatalf("the archive has the path %q", h.Name)
		}
		path := filepath.Join(dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			failOn(t, os.MkdirAll(path, 0o755))
		} else {
			b, err := io.ReadAll(archive)
			failOn(t, err)
			writeTestFile(t, path, string(b))
		}
		failOn(t, os.Chmod(path, h.FileInfo().Mode().Perm()))
		if os.Getuid() == 0 {
			failOn(t, os.Chown(path, h.Uid, h.Gid))
		}
	}
}

func platformImage(t *testing.T, index v1.ImageIndex, arch string) v1.Image {
	t.Helper()
	manifest, err := index.IndexManifest()
	failOn(t, err)
	for _, d := range manifest.Manifests {
		if d.Platform.Architecture == arch {
			image, err := index.Image(d.Digest)
			failOn(t, err)
			return image
		}
	}
	t.Fatalf("the image has no platform %s", arch)
	return nil
}

// Two builds have the same digest, and their layout is valid: media types, sizes, digests and
// platforms match.
func TestImageReproducible(t *testing.T) {
	r := newRelease(t)
	var layouts []string
	for round := range 2 {
		file, err := r.writeImage(fakeBuilds(t, round))
		failOn(t, err)
		layouts = append(layouts, readTestFile(t, filepath.Join(r.out, file)))
	}
	if layouts[0] != layouts[1] {
		t.Error("the layouts differ")
	}
	image := readImage(t, filepath.Join(r.out, "agenthost_0.1.0_oci.tar"))
	if err := validate.Index(image); err != nil {
		t.Error(err)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		root := t.TempDir()
		flat := mutate.Extract(platformImage(t, image, arch))
		unpackTar(t, flat, root)
		failOn(t, flat.Close())
		if !x509.NewCertPool().AppendCertsFromPEM([]byte(readTestFile(t, filepath.Join(root, "etc/ssl/certs/ca-certificates.crt")))) {
			t.Errorf("%s: no root certificates", arch)
		}
		if got := readTestFile(t, filepath.Join(root, "agenthost")); got != "program for "+arch {
			t.Errorf("%s: the program is %q", arch, got)
		}
	}
}

// A registry accepts the image and serves the platform that a client requests, with the labels.
func TestImageInRegistry(t *testing.T) {
	r := newRelease(t)
	file, err := r.writeImage(fakeBuilds(t, 0))
	failOn(t, err)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	tag, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://")+"/agenthost:0.1.0", name.Insecure)
	failOn(t, err)
	failOn(t, remote.WriteIndex(tag, readImage(t, filepath.Join(r.out, file))))
	pulled, err := remote.Image(tag, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: "arm64"}))
	failOn(t, err)
	config, err := pulled.ConfigFile()
	failOn(t, err)
	want := map[string]string{
		"org.opencontainers.image.title": "agenthost", "org.opencontainers.image.version": "v0.1.0",
		"org.opencontainers.image.revision": "0123456789ab", "org.opencontainers.image.created": "2023-11-14T22:13:20Z",
		"org.opencontainers.image.source": "https://example.com/agenthost", "org.opencontainers.image.licenses": "Apache-2.0",
	}
	if config.Architecture != "arm64" || !config.Created.Equal(commitTime) || !maps.Equal(config.Config.Labels, want) {
		t.Errorf("the image is %+v", config)
	}
}

// A release without Linux builds has no image.
func TestImageWithoutLinux(t *testing.T) {
	r := newRelease(t)
	if file, err := r.writeImage([]build{{goos: "darwin", goarch: "arm64"}}); err != nil || file != "" {
		t.Errorf("wrote %q, %v", file, err)
	}
}

// The image runs as the one that deploy/Dockerfile builds: user, variables, port, volume, health
// check and command are the same.
func TestImageLikeDockerfile(t *testing.T) {
	r := newRelease(t)
	file, err := r.writeImage(fakeBuilds(t, 0))
	failOn(t, err)
	config, err := platformImage(t, readImage(t, filepath.Join(r.out, file)), "amd64").ConfigFile()
	failOn(t, err)
	got := config.Config
	want := v1.Config{ExposedPorts: map[string]struct{}{}, Volumes: map[string]struct{}{}, Labels: got.Labels}
	_, final, _ := strings.Cut(readTestFile(t, "deploy/Dockerfile"), "\nFROM scratch\n")
	for line := range strings.Lines(final) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "USER":
			want.User = rest
		case "ENV":
			want.Env = append(want.Env, rest)
		case "EXPOSE":
			want.ExposedPorts[rest+"/tcp"] = struct{}{}
		case "VOLUME":
			want.Volumes[rest] = struct{}{}
		case "HEALTHCHECK":
			options, command, _ := strings.Cut(rest, " CMD ")
			check := got.Healthcheck
			if options != "--interval="+check.Interval.String()+" --timeout="+check.Timeout.String()+" --start-period="+check.StartPeriod.String() {
				t.Errorf("the health check is %+v, want %s", check, options)
			}
			if !slices.Equal(check.Test, append([]string{"CMD"}, decodeList(t, command)...)) {
				t.Errorf("the health check runs %q, want %s", check.Test, command)
			}
			want.Healthcheck = check
		case "ENTRYPOINT":
			want.Entrypoint = decodeList(t, rest)
		case "CMD":
			want.Cmd = decodeList(t, rest)
		}
	}
	if want.User == "" || want.Healthcheck == nil || !reflect.DeepEqual(got, want) {
		t.Errorf("the image is\n%+v, the Dockerfile's is\n%+v", got, want)
	}
}

func decodeList(t *testing.T, text string) []string {
	t.Helper()
	var list []string
	failOn(t, json.Unmarshal([]byte(text), &list))
	return list
}
