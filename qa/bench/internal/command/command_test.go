package command

import (
	"errors"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	tests := []struct {
		args string
		met  bool
		err  error
		code int
		want string
	}{
		{"", false, nil, Good, ""},
		{"-check", true, nil, Good, ""},
		{"-check", false, nil, Missed, ""},
		{"-check", true, errors.New("no disk"), Failed, "walks: no disk\n"},
		{"-run flat", true, nil, Usage, "walks: nothing matches \"flat\"\n"},
		{"-run ill -quick", true, nil, Good, ""},
		{"-fast", true, nil, Usage, "flag provided but not defined: -fast\n"},
		{"hill", true, nil, Usage, "walks: unexpected argument \"hill\"\n"},
	}
	for _, tt := range tests {
		f := New("walks", "shorter ones", "only these `walks`")
		var stderr strings.Builder
		code := f.Run(strings.Fields(tt.args), &stderr, func() (bool, error) {
			_, err := Chosen(f, []string{"hill", "forest"}, func(s string) string { return s })
			return tt.met, errors.Join(err, tt.err)
		})
		if got := stderr.String(); code != tt.code || !strings.HasPrefix(got, tt.want) {
			t.Errorf("Run(%s) = %d, %q, want %d, %q", tt.args, code, stderr.String(), tt.code, tt.want)
		}
	}
}
