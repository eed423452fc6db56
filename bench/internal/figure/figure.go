// Package figure words what was measured. What is not known is 0, and a dash.
package figure

import (
	"fmt"
	"time"
)

// Ratio is a over b.
func Ratio(a, b float64) float64 {
	if a == 0 || b == 0 {
		return 0
	}
	return a / b
}

// Times words a ratio.
func Times(ratio float64) string {
	if ratio == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3g×", ratio)
}

// Time words a duration, to three or four digits.
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

// Number words anything else, to at least two digits.
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
