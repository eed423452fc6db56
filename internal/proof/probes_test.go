package main

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func finds(n int, err error) func(context.Context, *site) (int, error) {
	return func(context.Context, *site) (int, error) { return n, err }
}

func TestFindings(t *testing.T) {
	memory, disk := place{name: "memory"}, place{name: "sqlite", driver: "sqlite"}
	tests := []struct {
		name  string
		probe probe
		at    place
		cell  string
		ok    bool
	}{
		{"zero, and a control that counts", probe{count: finds(0, nil), broken: finds(7, nil)}, disk, "0 / 7", true},
		{"something", probe{count: finds(2, nil), broken: finds(7, nil)}, disk, "2 / 7", false},
		{"a control that sees nothing", probe{count: finds(0, nil), broken: finds(0, nil)}, disk, "0 / 0", false},
		{"no control", probe{count: finds(0, nil)}, disk, "0", true},
		{"a control that needs tables", probe{count: finds(0, nil), broken: finds(0, nil), tables: true}, memory, "0", true},
		{"a failure", probe{count: finds(0, errors.New("no disk"))}, disk, "broke off", false},
		{"a control that fails", probe{count: finds(0, nil), broken: finds(0, errors.New("no disk"))}, disk, "broke off", false},
		{"not durable", probe{count: finds(3, nil), durable: true}, memory, "-", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := probeAt(t.Context(), &lab{dir: t.TempDir()}, tt.probe, tt.at)
			if f.text() != tt.cell || f.ok() != tt.ok {
				t.Errorf("cell %q, ok %v, want %q, %v", f.text(), f.ok(), tt.cell, tt.ok)
			}
		})
	}
}

// The probes that need no program of their own.
func TestZeros(t *testing.T) {
	l := &lab{dir: t.TempDir(), progress: t.Output()}
	for _, p := range probes() {
		if !regexp.MustCompile("microsecond|numbers|fields|rows").MatchString(p.what) {
			continue
		}
		for _, at := range []place{{name: "memory"}, {name: "sqlite", driver: "sqlite"}} {
			if f := probeAt(t.Context(), l, p, at); !f.ok() {
				t.Errorf("%s at %s: %s, %v", p.what, at.name, f.text(), f.err)
			}
		}
	}
}

func TestDifferences(t *testing.T) {
	want, err := treeOf(`{"a":{"b":[1,2]},"c":1.0,"d":"x"}`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := treeOf(`{"a":{"b":[1,3]},"c":1,"more":true}`)
	if err != nil {
		t.Fatal(err)
	}
	all := differences("", want, got)
	if len(all) != 3 || !strings.Contains(strings.Join(all, " "), ".a.b[1]") {
		t.Errorf("differences() = %q", all)
	}
	if diff := cmp.Diff([]string(nil), differences("", want, want)); diff != "" {
		t.Errorf("of the same:\n%s", diff)
	}
}

func TestNumbersText(t *testing.T) {
	got, err := numbersOf(numbersText([]int{3, 0, 12}))
	if diff := cmp.Diff([]int{3, 0, 12}, got); diff != "" || err != nil {
		t.Errorf("numbersOf(): %v\n%s", err, diff)
	}
	if _, err := numbersOf("1,x"); err == nil {
		t.Error("numbersOf() takes a letter")
	}
}
