package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// nonroot is the image's user and group.
const nonroot = 65532

// writeImage writes the Linux builds as one image for all their platforms, an OCI layout in a tar, and
// returns its name. Without Linux builds there is no image. The image equals the one of
// deploy/Dockerfile, and also has a passwd and a group file.
func (r *release) writeImage(builds []build) (string, error) {
	base, err := r.buildBaseLayer()
	if err != nil {
		return "", err
	}
	var platforms []mutate.IndexAddendum
	for _, b := range builds {
		if b.goos != "linux" {
			continue
		}
		image, err := r.buildImage(b, base)
		if err != nil {
			return "", err
		}
		platforms = append(platforms, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: b.goos, Architecture: b.goarch}},
		})
	}
	if len(platforms) == 0 {
		return "", nil
	}
	index, ok := mutate.Annotations(mutate.AppendManifests(empty.Index, platforms...), r.labelImage()).(v1.ImageIndex)
	if !ok {
		return "", errors.New("the annotated index is not an index")
	}
	dir, err := os.MkdirTemp("", "agenthost-image-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	folder, err := layout.Write(dir, empty.Index)
	if err != nil {
		return "", err
	}
	err = folder.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": r.fileVersion()}))
	if err != nil {
		return "", err
	}
	name := "agenthost_" + r.fileVersion() + "_oci.tar"
	return name, r.packLayout(dir, filepath.Join(r.out, name))
}

// labelImage returns the image's labels and annotations.
func (r *release) labelImage() map[string]string {
	labels := map[string]string{
		"org.opencontainers.image.title":    "agenthost",
		"org.opencontainers.image.version":  r.version,
		"org.opencontainers.image.revision": r.commit,
		"org.opencontainers.image.created":  r.time.Format(time.RFC3339),
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
	if r.source != "" {
		labels["org.opencontainers.image.source"] = r.source
	}
	return labels
}

// buildImage builds one platform's image: a layer that all platforms share, and one with the program.
func (r *release) buildImage(b build, base v1.Layer) (v1.Image, error) {
	binary, err := os.ReadFile(b.binary)
	if err != nil {
		return nil, err
	}
	program, err := r.buildLayer([]layerFile{{name: "agenthost", mode: 0o755, content: binary}})
	if err != nil {
		return nil, err
	}
	created := v1.Time{Time: r.time}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		OS: b.goos, Architecture: b.goarch, Created: created,
		RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{}},
		Config: v1.Config{
			User:         "65532:65532",
			Env:          []string{"AGENTHOST_ADDR=0.0.0.0:8000", "AGENTHOST_SESSION_DB=sqlite:////data/agenthost.db"},
			ExposedPorts: map[string]struct{}{"8000/tcp": {}},
			Volumes:      map[string]struct{}{"/data": {}},
			Entrypoint:   []string{"/agenthost"},
			Cmd:          []string{"serve", "/apps"},
			Labels:       r.labelImage(),
			Healthcheck: &v1.HealthConfig{
				Test: []string{"CMD", "/agenthost", "ready"}, Interval: 10 * time.Second, Timeout: 5 * time.Second, StartPeriod: 30 * time.Second,
			},
		},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(image,
		mutate.Addendum{Layer: base, History: v1.History{Created: created, CreatedBy: "tools/release: certificates, users and folders"}},
		mutate.Addendum{Layer: program, History: v1.History{Created: created, CreatedBy: "tools/release: agenthost " + r.version}},
	)
}

// layerFile is a file in a layer, or a folder if its name ends with a slash.
type layerFile struct {
	name    string
	mode    int64
	owner   int // user and group
	content []byte
}

// buildBaseLayer builds the file system that the program finds: Mozilla's root certificates at the
// version in go.mod, the user, and folders for apps and data.
func (r *release) buildBaseLayer() (v1.Layer, error) {
	var certificates bytes.Buffer
	for root := range bundle.Roots() {
		if err := pem.Encode(&certificates, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	return r.buildLayer([]layerFile{
		{name: "apps/", mode: 0o755},
		{name: "data/", mode: 0o755, owner: nonroot},
		{name: "etc/", mode: 0o755},
		{name: "etc/group", mode: 0o644, content: []byte("root:x:0:\nnonroot:x:65532:\n")},
		{name: "etc/passwd", mode: 0o644, content: []byte("root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/data:/sbin/nologin\n")},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: certificates.Bytes()},
	})
}

// buildLayer packs files into a compressed layer, with the commit's time.
func (r *release) buildLayer(list []layerFile) (v1.Layer, error) {
	var packed bytes.Buffer
	archive := tar.NewWriter(&packed)
	for _, f := range list {
		header := &tar.Header{
			Name: f.name, Mode: f.mode, Uid: f.owner, Gid: f.owner, Size: int64(len(f.content)), ModTime: r.time, Format: tar.FormatPAX,
		}
		if strings.HasSuffix(f.name, "/") {
			header.Typeflag = tar.TypeDir
		}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(9), tarball.WithCompressedCaching)
}

// packLayout writes the files below dir into a tar, sorted by name, with the commit's time.
func (r *release) packLayout(dir, file string) error {
	var names []string
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	slices.Sort(names)
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(f)
	for _, path := range names {
		if err = r.packFile(archive, dir, path); err != nil {
			break
		}
	}
	return errors.Join(err, archive.Close(), f.Close())
}

func (r *release) packFile(archive *tar.Writer, dir, path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	name, err := filepath.Rel(dir, path)
	if err != nil {
		return err
	}
	err = archive.WriteHeader(&tar.Header{
		Name: filepath.ToSlash(name), Mode: 0o644, Size: int64(len(b)), ModTime: r.time, Format: tar.FormatPAX,
	})
	if err != nil {
		return err
	}
	_, err = archive.Write(b)
	return err
}
