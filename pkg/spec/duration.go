package spec

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// A Duration is written as 30s, 5m, 1h30m or 30d. The units are those of
// [time.ParseDuration], and d for days of 24 hours.
type Duration time.Duration

// String formats the duration like [time.Duration].
func (d Duration) String() string { return time.Duration(d).String() }

// DecodeSpec decodes a duration that is not negative.
func (d *Duration) DecodeSpec(n *Node) Diagnostics {
	v, ok := parseDuration(n.Value)
	if n.Kind != Scalar || !ok {
		diag := n.typeError("a duration")
		if n.Kind == Scalar && (n.Tag == intTag || n.Tag == floatTag) {
			return Diagnostics{diag.WithHint("add the unit: %[1]ss (seconds), %[1]sms, %[1]sm, %[1]sh or %[1]sd", n.Value)}
		}
		return Diagnostics{diag.WithHint("write 30s, 5m, 1h30m or 30d")}
	}
	*d = Duration(v)
	return nil
}

// SchemaSpec describes the written form. The only number without a unit is 0.
func (d *Duration) SchemaSpec() map[string]any {
	return map[string]any{
		"type": []any{"string", "integer"}, "minimum": 0, "maximum": 0, "examples": []any{"30s", "5m", "1h30m", "30d"},
		"pattern": `^(\d+(\.\d+)?(ns|us|µs|ms|s|m|h|d))+$|^0$|^\$\{`,
	}
}

// parseDuration extends time.ParseDuration with leading days, as in 1d12h.
func parseDuration(s string) (time.Duration, bool) {
	var total float64
	if days, rest, ok := strings.Cut(s, "d"); ok {
		n, err := strconv.ParseFloat(days, 64)
		if err != nil || n < 0 {
			return 0, false
		}
		total, s = n*float64(24*time.Hour), rest
		if rest == "" {
			s = "0"
		}
	}
	v, err := time.ParseDuration(s)
	total += float64(v)
	if err != nil || v < 0 || !(total < math.MaxInt64) {
		return 0, false
	}
	return time.Duration(total), true
}

// A Size is a number of bytes, written as 10MiB, 4KiB, 1GiB, 500kB or as a plain number.
type Size int64

// DecodeSpec decodes a size that is not negative.
func (s *Size) DecodeSpec(n *Node) Diagnostics {
	bytes, ok := ParseSize(n.Value)
	if n.Kind != Scalar || !ok {
		return Diagnostics{n.typeError("a size").WithHint("write 10MiB, 4KiB, 1GB or a number of bytes")}
	}
	*s = Size(bytes)
	return nil
}

// ParseSize parses a number of bytes such as 10MiB.
func ParseSize(s string) (int64, bool) {
	digits := s[:len(s)-len(strings.TrimLeft(s, "0123456789."))]
	number, err := strconv.ParseFloat(digits, 64)
	unit, known := unitBytes(strings.TrimPrefix(s[len(digits):], " "))
	bytes := number * unit
	return int64(bytes), err == nil && known && bytes < math.MaxInt64
}

// FormatSize formats a number of bytes in the largest unit that divides it.
func FormatSize(bytes int64) string {
	for i, unit := range []string{"GiB", "MiB", "KiB"} {
		if size := int64(1) << (30 - 10*i); bytes >= size && bytes%size == 0 {
			return strconv.FormatInt(bytes/size, 10) + unit
		}
	}
	return strconv.FormatInt(bytes, 10)
}

func unitBytes(unit string) (float64, bool) {
	switch unit {
	case "", "B":
		return 1, true
	case "kB", "KB":
		return 1e3, true
	case "MB":
		return 1e6, true
	case "GB":
		return 1e9, true
	case "KiB":
		return 1 << 10, true
	case "MiB":
		return 1 << 20, true
	case "GiB":
		return 1 << 30, true
	}
	return 0, false
}

// SchemaSpec describes the written form.
func (s *Size) SchemaSpec() map[string]any {
	return map[string]any{
		"type": []any{"integer", "string"}, "examples": []any{"10MiB", "4KiB", 65536},
		"pattern": `^\d+(\.\d+)? ?(B|kB|KB|MB|GB|KiB|MiB|GiB)?$|^\$\{`,
	}
}
