package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// Two archives with the same files are equal, whatever the files' times and modes.
func TestArchivesReproducible(t *testing.T) {
	for _, goos := range []string{"linux", "windows"} {
		var archives [][]byte
		for i, mode := range []os.FileMode{0o600, 0o755} {
			dir := t.TempDir()
			program := filepath.Join(dir, "agenthost")
			if err := os.WriteFile(program, []byte("program"), mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(program, time.Time{}, time.Unix(int64(i)*1e6, 0)); err != nil {
				t.Fatal(err)
			}
			r := release{version: "v0.1.0", time: commitTime, out: dir}
			name, err := r.packArchive("agenthost_0.1.0_"+goos+"_amd64", []string{program}, goos)
			if err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			archives = append(archives, b)
		}
		if !bytes.Equal(archives[0], archives[1]) {
			t.Errorf("%s: the archives differ", goos)
		}
	}
}

// The bill of materials lists Go's library and each of the binary's modules by package URL, and has
// the binary's version and hash.
func TestBOM(t *testing.T) {
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := release{version: "v0.1.0", time: commitTime, out: t.TempDir()}
	name, err := r.writeBOM("agenthost", binary)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(r.out, name))
	if err != nil {
		t.Fatal(err)
	}
	var got bom
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if got.Metadata.Timestamp != "2023-11-14T22:13:20Z" || got.Metadata.Component.Version != "v0.1.0" || len(got.Metadata.Component.Hashes[0].Content) != 64 {
		t.Errorf("metadata: %+v", got.Metadata)
	}
	if !slices.ContainsFunc(got.Components, func(c component) bool { return c.Name == "std" && c.PURL != "" }) {
		t.Errorf("Go's library is missing: %+v", got.Components)
	}
}
