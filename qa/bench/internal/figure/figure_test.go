package figure

import (
	"testing"
	"time"
)

// Unknown values have no ratio and are formatted as a dash.
func TestFigures(t *testing.T) {
	tests := []struct{ got, want string }{
		{Times(Ratio(12, 4)), "3×"},
		{Times(Ratio(12, 0)), "-"},
		{Times(Ratio(0, 4)), "-"},
		{Times(1234.5), "1.23e+03×"},
		{Time(0), "-"},
		{Time(1500 * time.Nanosecond), "1.5 µs"},
		{Time(12345 * time.Microsecond), "12.35 ms"},
		{Number(0), "-"},
		{Number(1.5), "1.50"},
		{Number(1234.5), "1234"},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}
