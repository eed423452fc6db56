// Package number parses, adds and compares JSON numbers without losing a digit.
//
// A number keeps its digits from one edge of the process to the other. Inside it is
//
//   - an int64, if it is written as an integer and fits,
//   - a float64, if it is written with a fraction or an exponent and the float's shortest
//     form is the same decimal, so that 0.1 stays 0.1,
//   - else a json.Number: 18446744073709551615, 1e400, a decimal of 30 digits.
//
// Every edge decodes by [Parse], most of them by internal/adkjson, and encodes these types as they
// are. A float64 that encoding/json decoded has lost its digits already.
package number

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Parse parses a JSON number to an int64, a float64 or a json.Number: the first that keeps
// all digits.
func Parse(text string) any {
	if !strings.ContainsAny(text, ".eE") {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
		return json.Number(text)
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !keepsDigits(f, text) {
		return json.Number(text)
	}
	return f
}

// ParseWhole is [Parse] for a place that expects an integer: a number without a
// fraction is an integer, however it is written. 5.0 and 5e0 are 5. An exponent that
// would write out more than maxWholeDigits digits stays.
func ParseWhole(text string) any {
	d, ok := parseDecimal(text)
	if !ok || d.exponent < 0 || len(d.digits)+d.exponent > maxWholeDigits {
		return Parse(text)
	}
	whole := d.digits + strings.Repeat("0", d.exponent)
	if whole == "" {
		whole = "0"
	}
	if d.negative {
		whole = "-" + whole
	}
	return Parse(whole)
}

// maxWholeDigits limits the digits of an integer that ParseWhole writes out. A float64
// has at most 309.
const maxWholeDigits = 400

// maxSafeDigits is how many decimal digits a float64 always keeps, if it is not subnormal (DBL_DIG
// in C).
const maxSafeDigits = 15

// keepsDigits reports whether the shortest form of a float is the decimal that was
// written.
func keepsDigits(f float64, text string) bool {
	if len(text) <= maxSafeDigits && !strings.ContainsAny(text, "eE") {
		return true
	}
	written, ok := parseDecimal(text)
	if !ok {
		return false
	}
	kept, _ := parseDecimal(strconv.FormatFloat(f, 'e', -1, 64))
	return kept.digits == written.digits && kept.exponent == written.exponent
}

// MaxExponent limits the exponent of a number that is written out, as an integer or a
// fraction.
const MaxExponent = 10_000

// IsPrintable reports whether a number may be written out: 1e999999999 needs a gigabyte.
func IsPrintable(n json.Number) bool {
	d, ok := parseDecimal(string(n))
	return ok && -MaxExponent <= d.exponent && d.exponent <= MaxExponent
}

// CountDigits returns how many digits a number has that is written out, or 0 if its exponent does
// not fit.
func CountDigits(n json.Number) int {
	d, _ := parseDecimal(string(n))
	return len(d.digits) + max(d.exponent, -d.exponent)
}

// A decimal is digits times ten to the power of exponent. The digits have no zeros at
// either end, so equal numbers have equal decimals; those of 0 are empty.
type decimal struct {
	negative bool
	digits   string
	exponent int
}

// parseDecimal parses a JSON number. ok is false if the exponent does not fit.
func parseDecimal(text string) (d decimal, ok bool) {
	text, d.negative = strings.CutPrefix(text, "-")
	mantissa := text
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		n, err := strconv.ParseInt(text[at+1:], 10, 32)
		if err != nil {
			return d, false
		}
		mantissa, d.exponent = text[:at], int(n)
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	d.exponent -= len(fraction)
	digits := strings.TrimRight(whole+fraction, "0")
	d.exponent += len(whole) + len(fraction) - len(digits)
	if d.digits = strings.TrimLeft(digits, "0"); d.digits == "" {
		d.exponent = 0
	}
	return d, true
}
