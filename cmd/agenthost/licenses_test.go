package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// A linkedModule is a module whose packages are in the binary.
type linkedModule struct{ Path, Version, Dir string }

// linkedModules returns the release binary's modules, and Go's standard library.
func linkedModules(t *testing.T) []linkedModule {
	t.Helper()
	goCommand := func(args ...string) []byte {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	dec := json.NewDecoder(bytes.NewReader(goCommand("list", "-deps", "-tags=grpcnotrace", "-json=Module", ".")))
	modules := []linkedModule{{"std", "Go", strings.TrimSpace(string(goCommand("env", "GOROOT")))}}
	for dec.More() {
		var p struct{ Module *linkedModule }
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		if p.Module != nil && p.Module.Version != "" && !slices.Contains(modules, *p.Module) {
			modules = append(modules, *p.Module)
		}
	}
	slices.SortFunc(modules, func(a, b linkedModule) int { return cmp.Compare(a.Path, b.Path) })
	return modules
}

// licenceNames returns the allowed licences, each with words that occur only in its
// text. A person reviews a new licence before it is added here.
func licenceNames() []struct{ name, words string } {
	return []struct{ name, words string }{
		{"Apache-2.0", "Apache License Version 2.0"},
		{"MPL-2.0", "Mozilla Public License Version 2.0"},
		{"BSD-3-Clause", "Neither the name of"},
		{"BSD-3-Clause", "Neither the names of"},
		{"BSD-3-Clause", "names of its contributors may be used"},
		{"BSD-2-Clause", "Redistributions in binary form must reproduce the above copyright notice, this list of conditions and the following disclaimer in the documentation"},
		{"MIT", "Permission is hereby granted, free of charge, to any person obtaining a copy of this software"},
		{"ISC", "Permission to use, copy, modify, and/or distribute this software for any purpose"},
		{"ISC", "Permission to use, copy, modify, and distribute this software for any purpose"},
	}
}

var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|copyright|patents|authors)([.-].*)?$`)

// writeLicenses returns the licence file's uncompressed content. Texts that several modules share
// appear once.
func writeLicenses(t *testing.T, modules []linkedModule) string {
	var list, texts strings.Builder
	var order []string
	users := map[string][]string{}
	for _, m := range modules {
		names := []string{}
		entries, err := os.ReadDir(m.Dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.IsDir() || !licenceFile.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
				continue
			}
			b, err := os.ReadFile(filepath.Join(m.Dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			text := strings.TrimSpace(strings.ReplaceAll(string(b), "\r\n", "\n"))
			words := strings.Join(strings.Fields(text), " ")
			for _, l := range licenceNames() {
				if strings.Contains(words, l.words) && len(names) == 0 {
					names = append(names, l.name)
				}
			}
			if users[text] == nil {
				order = append(order, text)
			}
			users[text] = append(users[text], m.Path+" "+m.Version+" ("+e.Name()+")")
		}
		if len(names) == 0 {
			t.Errorf("%s %s in %s has no known licence: review it, and add it to licenceNames", m.Path, m.Version, m.Dir)
		}
		fmt.Fprintf(&list, "%s %s %s\n", m.Path, m.Version, strings.Join(names, ","))
	}
	for _, text := range order {
		fmt.Fprintf(&texts, "%s\n%s\n\n%s\n\n", strings.Repeat("=", 78), strings.Join(users[text], "\n"), text)
	}
	return list.String() + "\n" + texts.String()
}

// The licences in the binary match the linked modules.
func TestLicensesFresh(t *testing.T) {
	want := writeLicenses(t, linkedModules(t))
	if updating() {
		var packed bytes.Buffer
		w, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		if _, err := w.Write([]byte(want)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("licenses.txt.gz", packed.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := unpackLicenses(licensesFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("licenses.txt.gz is not fresh: run make generate (-want +got):\n%.2000s", diff)
	}
}
