package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"
)

// bom is a software bill of materials, as far as a Go program's modules need it (CycloneDX 1.6,
// https://cyclonedx.org/docs/1.6/json/).
type bom struct {
	Schema      string      `json:"$schema"`
	Format      string      `json:"bomFormat"`
	SpecVersion string      `json:"specVersion"`
	Version     int         `json:"version"`
	Metadata    bomMetadata `json:"metadata"`
	Components  []component `json:"components"`
}

type bomMetadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl,omitempty"`
	Hashes     []bomHash  `json:"hashes,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type bomHash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// writeBOM lists the modules that Go recorded in a binary, Go's own library included, and the
// binary's SHA-256.
func (r *release) writeBOM(name, binary string) (string, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return "", err
	}
	b, err := os.ReadFile(binary)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	out, err := json.MarshalIndent(r.buildBOM(info, hex.EncodeToString(sum[:])), "", "  ")
	if err != nil {
		return "", err
	}
	file := name + ".cdx.json"
	return file, os.WriteFile(filepath.Join(r.out, file), append(out, '\n'), 0o644)
}

func (r *release) buildBOM(info *buildinfo.BuildInfo, sum string) bom {
	program := component{
		Type: "application", Ref: "agenthost@" + r.version, Name: "agenthost", Version: r.version,
		Hashes: []bomHash{{Algorithm: "SHA-256", Content: sum}},
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "GOOS", "GOARCH", "CGO_ENABLED", "-trimpath", "vcs.revision":
			program.Properties = append(program.Properties, property{Name: "go:build:" + s.Key, Value: s.Value})
		}
	}
	list := bom{
		Schema: "http://cyclonedx.org/schema/bom-1.6.schema.json", Format: "CycloneDX", SpecVersion: "1.6", Version: 1,
		Metadata:   bomMetadata{Timestamp: r.time.Format(time.RFC3339), Component: program},
		Components: []component{moduleComponent(&debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")})},
	}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		list.Components = append(list.Components, moduleComponent(m))
	}
	return list
}

// moduleComponent names a module by its package URL, and keeps its go.sum hash.
func moduleComponent(m *debug.Module) component {
	purl := "pkg:golang/" + m.Path + "@" + m.Version
	c := component{Type: "library", Ref: purl, Name: m.Path, Version: m.Version, PURL: purl}
	if m.Sum != "" {
		c.Properties = []property{{Name: "go:sum", Value: m.Sum}}
	}
	return c
}
