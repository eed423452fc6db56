package adkdb

import (
	"math"
	"testing"
	"time"
)

func TestReadTime(t *testing.T) {
	tokyo := time.FixedZone("", 9*3600)
	for _, tt := range []struct {
		in   any
		want string
	}{
		{"2026-07-29 08:00:01.250000", "2026-07-28T23:00:01.25Z"},
		{"2026-07-29T08:00:01", "2026-07-28T23:00:01Z"},
		{[]byte("2026-07-29 08:00:01"), "2026-07-28T23:00:01Z"},
		{"2026-07-29 08:00:01.123456789+00:00", "2026-07-29T08:00:01.123456Z"},
		{"2026-07-29 08:00:01 +0200 CEST m=+3.5", "2026-07-29T06:00:01Z"},
		{"2026-07-29T08:00:01.5+02:00", "2026-07-29T06:00:01.5Z"},
		{1785312000.123457, "2026-07-29T08:00:00.123457Z"},
		{int64(1785312000), "2026-07-29T08:00:00Z"},
		{"1785312000.5", "2026-07-29T08:00:00.5Z"},
		{time.Date(2026, 7, 29, 8, 0, 0, 0, tokyo), "2026-07-28T23:00:00Z"},
		{"0001-01-01 00:00:00+00:00", "0001-01-01T00:00:00Z"},
	} {
		got, err := readTime(tt.in, tokyo)
		if err != nil || got.Format(time.RFC3339Nano) != tt.want {
			t.Errorf("readTime(%v) = %s, %v, want %s", tt.in, got.Format(time.RFC3339Nano), err, tt.want)
		}
	}
	for _, in := range []any{nil, "", "soon", math.NaN(), math.Inf(1), 1e300, int64(math.MaxInt64), true} {
		if got, err := readTime(in, tokyo); err == nil {
			t.Errorf("readTime(%v) = %s, want an error", in, got)
		}
	}
}
