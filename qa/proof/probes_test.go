package main

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func returnCount(n int, err error) func(context.Context, *sandbox) (int, error) {
	return func(context.Context, *sandbox) (int, error) { return n, err }
}

func TestFindingCell(t *testing.T) {
	memory, disk := backend{name: "memory"}, backend{name: "sqlite", driver: "sqlite"}
	tests := []struct {
		name  string
		probe probe
		at    backend
		cell  string
		ok    bool
	}{
		{"zero count", probe{count: returnCount(0, nil), countControl: returnCount(7, nil)}, disk, "0 / 7", true},
		{"failures found", probe{count: returnCount(2, nil), countControl: returnCount(7, nil)}, disk, "2 / 7", false},
		{"control finds nothing", probe{count: returnCount(0, nil), countControl: returnCount(0, nil)}, disk, "0 / 0", false},
		{"no control", probe{count: returnCount(0, nil)}, disk, "0", true},
		{"control needs tables", probe{count: returnCount(0, nil), countControl: returnCount(0, nil), needsTables: true}, memory, "0", true},
		{"probe error", probe{count: returnCount(0, errors.New("no disk"))}, disk, "aborted", false},
		{"control error", probe{count: returnCount(0, nil), countControl: returnCount(0, errors.New("no disk"))}, disk, "aborted", false},
		{"not durable", probe{count: returnCount(3, nil), durable: true}, memory, "-", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := probeAt(t.Context(), &lab{dir: t.TempDir()}, tt.probe, tt.at)
			if f.cellText() != tt.cell || f.ok() != tt.ok {
				t.Errorf("cell %q, ok %v, want %q, %v", f.cellText(), f.ok(), tt.cell, tt.ok)
			}
		})
	}
}

// The probes that need no separate process find no failures.
func TestProbesCountZero(t *testing.T) {
	l := &lab{dir: t.TempDir(), progress: t.Output()}
	for _, p := range allProbes() {
		if !regexp.MustCompile("microsecond|numbers|fields|rows").MatchString(p.name) {
			continue
		}
		for _, at := range []backend{{name: "memory"}, {name: "sqlite", driver: "sqlite"}} {
			if f := probeAt(t.Context(), l, p, at); !f.ok() {
				t.Errorf("%s at %s: %s, %v", p.name, at.name, f.cellText(), f.err)
			}
		}
	}
}

func TestDifferences(t *testing.T) {
	want, err := parseTree(`{"a":{"b":[1,2]},"c":1.0,"d":"x"}`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseTree(`{"a":{"b":[1,3]},"c":1,"more":true}`)
	if err != nil {
		t.Fatal(err)
	}
	all := findDifferences("", want, got)
	if len(all) != 3 || !strings.Contains(strings.Join(all, " "), ".a.b[1]") {
		t.Errorf("findDifferences() = %q", all)
	}
	if diff := cmp.Diff([]string(nil), findDifferences("", want, want)); diff != "" {
		t.Errorf("equal values:\n%s", diff)
	}
}

func TestParseNumbers(t *testing.T) {
	got, err := parseNumbers(formatNumbers([]int{3, 0, 12}))
	if diff := cmp.Diff([]int{3, 0, 12}, got); diff != "" || err != nil {
		t.Errorf("parseNumbers(): %v\n%s", err, diff)
	}
	if _, err := parseNumbers("1,x"); err == nil {
		t.Error("parseNumbers() accepts x")
	}
}
