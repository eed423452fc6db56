package session

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"time"
)

// The seconds of the years 1 to 9999, and the integer from which a time is in
// milliseconds: as seconds it would be the year 5138.
const (
	firstSecond          = -62_135_596_800
	lastSecond           = 253_402_300_799
	firstMillisecondTime = 100_000_000_000
)

func isTimeInRange(t time.Time) bool {
	s := t.Unix()
	return firstSecond <= s && s <= lastSecond
}

// appendSeconds writes a number of 10^-digits seconds as a decimal fraction
// with at least one digit after the point.
func appendSeconds(b []byte, n int64, digits int) []byte {
	if n < 0 {
		b = append(b, '-')
	}
	unit := uint64(math.Pow10(digits))
	u := absoluteValue(n)
	b = strconv.AppendUint(b, u/unit, 10)
	b = append(b, '.')
	var buf [24]byte
	fraction := strconv.AppendUint(buf[:0], unit+u%unit, 10)[1:]
	for len(fraction) > 1 && fraction[len(fraction)-1] == '0' {
		fraction = fraction[:len(fraction)-1]
	}
	return append(b, fraction...)
}

func absoluteValue(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}

// appendDuration appends protobuf's form: "3.5s", "2s".
func appendDuration(b []byte, d time.Duration) []byte {
	start := len(b)
	b = appendSeconds(b, int64(d), 9)
	whole := bytes.TrimSuffix(b[start:], []byte(".0"))
	return append(b[:start+len(whole)], 's')
}

func (r *reader) readDuration() time.Duration {
	s := r.readString()
	if r.err != nil || s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		r.setError(`expected a duration such as "3.5s", got %q`, s)
	}
	return d
}

// readTime reads float seconds, integer milliseconds or RFC 3339, in UTC with
// microsecond precision. 0 is the zero time.
func (r *reader) readTime() time.Time {
	if r.peekByte() == '"' {
		return r.readTimeText()
	}
	text := string(r.readNumber())
	if r.err != nil || text == "0" || text == "0.0" {
		return time.Time{}
	}
	t, ok := parseTime(text)
	if !ok || !isTimeInRange(t) {
		r.setError("the time %s is outside the years 1 to 9999", text)
	}
	return t
}

func (r *reader) readTimeText() time.Time {
	s := r.readString()
	if r.err != nil {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		r.setError("expected seconds or a time such as 2026-07-29T08:00:00Z, got %q", s)
		return time.Time{}
	}
	if t = t.UTC().Round(time.Microsecond); !isTimeInRange(t) {
		r.setError("the time %s is outside the years 1 to 9999", s)
	}
	return t
}

// parseTime parses a number. A plain decimal is parsed digit by digit: a
// float64 would lose microseconds in far years.
func parseTime(text string) (time.Time, bool) {
	if strings.ContainsAny(text, "eE") {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || f < firstSecond || f > lastSecond {
			return time.Time{}, false
		}
		return time.UnixMicro(int64(math.Round(f * 1e6))).UTC(), true
	}
	whole, fraction, isFloat := strings.Cut(text, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return time.Time{}, false
	}
	if !isFloat && n > firstMillisecondTime {
		return time.UnixMilli(n).UTC(), true
	}
	micros := parseMicros(fraction)
	if strings.HasPrefix(text, "-") {
		micros = -micros
	}
	return time.Unix(n, micros*1000).UTC(), true
}

// parseMicros rounds the digits of a fraction to millionths.
func parseMicros(fraction string) int64 {
	var n int64
	for _, digit := range (fraction + "0000000")[:7] {
		n = n*10 + int64(digit-'0')
	}
	return (n + 5) / 10
}
