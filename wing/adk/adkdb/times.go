package adkdb

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// offsetLayouts are time layouts with an offset, written by Go drivers.
func offsetLayouts() []string {
	return []string{"2006-01-02 15:04:05.999999999 -0700 MST", "2006-01-02 15:04:05.999999999-07:00", time.RFC3339Nano}
}

// zonelessLayouts are time layouts without an offset, written by Python.
func zonelessLayouts() []string {
	return []string{"2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999", "2006-01-02"}
}

// readTime decodes a stored time. A number is in seconds since the epoch; a time
// without an offset is in zone.
func readTime(v any, zone *time.Location) (time.Time, error) {
	switch v := v.(type) {
	case float64:
		return timeFromSeconds(v)
	case int64:
		return timeFromSeconds(float64(v))
	case time.Time:
		if zone == time.Local {
			// The driver reads local wall-clock times as UTC.
			v = time.Date(v.Year(), v.Month(), v.Day(), v.Hour(), v.Minute(), v.Second(), v.Nanosecond(), zone)
		}
		return checkYear(v)
	case string:
		return parseTime(v, zone)
	case []byte:
		return parseTime(string(v), zone)
	default:
		return time.Time{}, fmt.Errorf("invalid time %v", v)
	}
}

func timeFromSeconds(s float64) (time.Time, error) {
	if math.IsNaN(s) || math.Abs(s) > 253_402_300_799 {
		return time.Time{}, fmt.Errorf("invalid time %v", s)
	}
	return checkYear(time.UnixMicro(int64(math.Round(s * 1e6))))
}

func checkYear(t time.Time) (time.Time, error) {
	t = t.UTC().Truncate(time.Microsecond)
	if t.Year() < 1 || t.Year() > 9999 {
		return t, fmt.Errorf("time %s is outside the years 1 to 9999", t)
	}
	return t, nil
}

func parseTime(text string, zone *time.Location) (time.Time, error) {
	// Go's String format may end with the monotonic clock reading.
	text, _, _ = strings.Cut(text, " m=")
	for _, form := range offsetLayouts() {
		if t, err := time.Parse(form, text); err == nil {
			return checkYear(t)
		}
	}
	for _, form := range zonelessLayouts() {
		if t, err := time.ParseInLocation(form, text, zone); err == nil {
			return checkYear(t)
		}
	}
	if s, err := strconv.ParseFloat(text, 64); err == nil {
		return timeFromSeconds(s)
	}
	return time.Time{}, fmt.Errorf("invalid time %q", text)
}
