package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func newProof(rows []row, err error) proof {
	return proof{"speed", func(context.Context, *lab) ([]row, error) { return rows, err }}
}

func TestTable(t *testing.T) {
	kept := row{"it starts", "46ms", true}
	tests := []struct {
		name  string
		topic proof
		ok    bool
		want  string
	}{
		{"passed", newProof([]row{kept}, nil), true, `
| promise   | result | ok  |
| --------- | ------ | --- |
| it starts | 46ms   | yes |
`},
		{"failed", newProof([]row{kept, {"10× less", "6×", false}}, nil), false, `
| promise   | result | ok  |
| --------- | ------ | --- |
| it starts | 46ms   | yes |
| 10× less  | 6×     | NO  |
`},
		{"aborted", newProof([]row{kept}, errors.New("no address,\nbut noise")), false, `
| promise   | result                         | ok  |
| --------- | ------------------------------ | --- |
| it starts | 46ms                           | yes |
| speed     | aborted: no address, but noise | NO  |
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got table
			got.runProof(t.Context(), nil, tt.topic)
			var b strings.Builder
			if err := got.print(&b); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, "\n"+b.String()); diff != "" {
				t.Errorf("print() (-want +got):\n%s", diff)
			}
			if got.ok() != tt.ok {
				t.Errorf("ok() = %v, want %v", got.ok(), tt.ok)
			}
		})
	}
}

func TestNewLabWithoutProgram(t *testing.T) {
	_, err := newLab(&options{bin: "no/such/program", bench: "bench"})
	if err == nil || !strings.Contains(err.Error(), "hint: run make build") {
		t.Errorf("newLab() = %v, want the hint to build the program", err)
	}
}
