package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
)

// packArchive writes the files into one archive below a folder with the archive's name: a zip for
// Windows, a compressed tar for others. The first file is the program.
func (r *release) packArchive(name string, files []string, goos string) (string, error) {
	write, archive := r.writeTar, name+".tar.gz"
	if goos == "windows" {
		write, archive = r.writeZip, name+".zip"
	}
	f, err := os.Create(filepath.Join(r.out, archive))
	if err != nil {
		return "", err
	}
	return archive, errors.Join(write(f, name, files), f.Close())
}

// fileMode is the same for every build, whatever the umask of its user.
func fileMode(index int) int64 {
	if index == 0 {
		return 0o755
	}
	return 0o644
}

func (r *release) writeTar(w io.Writer, dir string, files []string) error {
	compressed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(compressed)
	for i, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		err = archive.WriteHeader(&tar.Header{
			Name: path.Join(dir, filepath.Base(file)), Mode: fileMode(i), Size: int64(len(b)), ModTime: r.time, Format: tar.FormatPAX,
		})
		if err != nil {
			return err
		}
		if _, err := archive.Write(b); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), compressed.Close())
}

func (r *release) writeZip(w io.Writer, dir string, files []string) error {
	archive := zip.NewWriter(w)
	for i, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		header := &zip.FileHeader{Name: path.Join(dir, filepath.Base(file)), Method: zip.Deflate, Modified: r.time}
		header.SetMode(os.FileMode(fileMode(i)))
		entry, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := entry.Write(b); err != nil {
			return err
		}
	}
	return archive.Close()
}
