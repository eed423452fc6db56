package toolhttp

import "testing"

func TestFormatSize(t *testing.T) {
	tests := map[int64]string{1000: "1000 bytes", 1024: "1 KiB", 1536: "1536 bytes", 1 << 20: "1 MiB", 3 << 30: "3 GiB"}
	for in, want := range tests {
		if got := FormatSize(in); got != want {
			t.Errorf("sizeText(%d) = %q, want %q", in, got, want)
		}
	}
}
