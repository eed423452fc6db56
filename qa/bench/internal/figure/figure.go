// Package figure formats measurements. 0 means unknown and is formatted as a dash.
package figure

import (
	"fmt"
	"time"
)

// Ratio returns a divided by b, or 0 if one is unknown.
func Ratio(a, b float64) float64 {
	if a == 0 || b == 0 {
		return 0
	}
	return a / b
}

// Times formats a ratio.
func Times(ratio float64) string {
	if ratio == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3g×", ratio)
}

// Time formats a duration with three or four digits.
func Time(d time.Duration) string {
	switch {
	case d == 0:
		return "-"
	case d < time.Millisecond:
		return fmt.Sprintf("%.1f µs", float64(d)/float64(time.Microsecond))
	default:
		return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
	}
}

// Number formats any other value with at least two digits.
func Number(n float64) string {
	switch {
	case n == 0:
		return "-"
	case n < 100:
		return fmt.Sprintf("%.2f", n)
	default:
		return fmt.Sprintf("%.0f", n)
	}
}
