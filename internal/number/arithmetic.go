package number

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// maxDigits limits the integers that are computed with. A float64 has at most 309 digits.
const maxDigits = 400

// Is reports whether v is a finite number.
func Is(v any) bool {
	switch v := v.(type) {
	case int64, json.Number:
		return true
	case float64:
		return !math.IsNaN(v) && !math.IsInf(v, 0)
	}
	return false
}

// Compare compares two numbers exactly: integers, and floats by the decimals that they print as. ok
// is false if one is not a number, or has an exponent with more than nine digits.
func Compare(a, b any) (order int, ok bool) {
	x, isInt := a.(int64)
	if y, both := b.(int64); isInt && both {
		return cmp.Compare(x, y), true
	}
	c, ok := decimalOf(a)
	d, both := decimalOf(b)
	if !ok || !both {
		return 0, false
	}
	return c.compareTo(d), true
}

// decimalOf returns the decimal of a finite number.
func decimalOf(v any) (decimal, bool) {
	switch v := v.(type) {
	case int64:
		return parseDecimal(strconv.FormatInt(v, 10))
	case json.Number:
		return parseDecimal(string(v))
	case float64:
		if Is(v) {
			return parseDecimal(strconv.FormatFloat(v, 'e', -1, 64))
		}
	}
	return decimal{}, false
}

// compareTo compares two decimals without writing out their exponents.
func (d decimal) compareTo(e decimal) int {
	order := cmp.Compare(d.signOf(), e.signOf())
	if order != 0 || d.signOf() == 0 {
		return order
	}
	order = cmp.Compare(len(d.digits)+d.exponent, len(e.digits)+e.exponent)
	if order == 0 {
		order = strings.Compare(d.digits, e.digits)
	}
	return order * d.signOf()
}

func (d decimal) signOf() int {
	switch {
	case d.digits == "":
		return 0
	case d.negative:
		return -1
	}
	return 1
}

// An Operator is an operation on two numbers.
type Operator byte

// The operators.
const (
	Plus      Operator = '+'
	Minus     Operator = '-'
	Times     Operator = '*'
	Divided   Operator = '/'
	Remainder Operator = '%'
	Power     Operator = '^'
)

// Compute computes with integers exactly, however large they are. With a decimal, the
// result is a float64, and so is a quotient with a fraction. An integer or decimal that a
// float64 would round is then an error that names it. Remainder reads 6.0 as 6.
func Compute(a any, op Operator, b any) (any, error) {
	if x, ok := a.(int64); ok {
		if y, ok := b.(int64); ok {
			if z, ok := computeInt64(x, op, y); ok {
				return z, nil
			}
		}
	}
	if op == Remainder {
		a, b = toWhole(a), toWhole(b)
	}
	x, isInt := toInteger(a)
	y, both := toInteger(b)
	switch {
	case isInt && both && (op == Divided || op == Remainder):
		return divideIntegers(x, op, y)
	case isInt && both && (op != Power || y.Sign() >= 0):
		return computeIntegers(x, op, y)
	case op == Remainder:
		return nil, errors.New("% requires integers")
	}
	return computeFloats(a, op, b)
}

// Negate returns -v, exactly.
func Negate(v any) any {
	switch v := v.(type) {
	case float64:
		return -v
	case int64:
		if v != math.MinInt64 {
			return -v
		}
		return json.Number(strconv.FormatInt(v, 10)[1:])
	case json.Number:
		if positive, ok := strings.CutPrefix(string(v), "-"); ok {
			return Parse(positive)
		}
		return Parse("-" + string(v))
	}
	return v
}

// computeInt64 returns false if the result overflows.
func computeInt64(x int64, op Operator, y int64) (int64, bool) {
	switch op {
	case Plus:
		z := x + y
		return z, (z > x) == (y > 0)
	case Minus:
		z := x - y
		return z, (z < x) == (y > 0)
	case Remainder:
		if y == 0 || y == -1 {
			return 0, y != 0
		}
		return x % y, true
	case Divided, Power:
		return 0, false
	}
	if x == 0 || y == 0 {
		return 0, true
	}
	z := x * y
	return z, z/y == x && (x != -1 || y != math.MinInt64) && (y != -1 || x != math.MinInt64)
}

// toInteger returns an integer with at most maxDigits digits.
func toInteger(v any) (*big.Int, bool) {
	switch v := v.(type) {
	case int64:
		return big.NewInt(v), true
	case json.Number:
		if len(v) <= maxDigits {
			return new(big.Int).SetString(string(v), 10)
		}
	}
	return nil, false
}

// toWhole converts a decimal without fraction to an integer.
func toWhole(v any) any {
	switch v := v.(type) {
	case json.Number:
		return ParseWhole(string(v))
	case float64:
		if Is(v) {
			return ParseWhole(strconv.FormatFloat(v, 'e', -1, 64))
		}
	}
	return v
}

// divideIntegers returns an integer if y divides x, else a float64.
func divideIntegers(x *big.Int, op Operator, y *big.Int) (any, error) {
	if y.Sign() == 0 {
		return nil, errDivisionByZero
	}
	quotient, remainder := new(big.Int).QuoRem(x, y, new(big.Int))
	switch {
	case op == Remainder:
		return Parse(remainder.String()), nil
	case remainder.Sign() == 0:
		return Parse(quotient.String()), nil
	}
	return computeFloats(Parse(x.String()), Divided, Parse(y.String()))
}

func computeIntegers(x *big.Int, op Operator, y *big.Int) (any, error) {
	z := new(big.Int)
	switch op {
	case Plus:
		z.Add(x, y)
	case Minus:
		z.Sub(x, y)
	case Power:
		if x.BitLen() > 1 && (!y.IsInt64() || y.Int64() > 4*maxDigits/int64(x.BitLen()-1)) {
			return nil, errTooManyDigits
		}
		z.Exp(x, y, nil)
	default:
		z.Mul(x, y)
	}
	text := z.String()
	if len(text) > maxDigits {
		return nil, errTooManyDigits
	}
	return Parse(text), nil
}

var (
	errDivisionByZero = errors.New("division by zero")
	errTooManyDigits  = fmt.Errorf("the result exceeds the limit of %d digits", maxDigits)
)

func computeFloats(a any, op Operator, b any) (any, error) {
	x, err := ToFloat(a)
	if err != nil {
		return nil, err
	}
	y, err := ToFloat(b)
	if err != nil {
		return nil, err
	}
	z := 0.0
	switch op {
	case Plus:
		z = x + y
	case Minus:
		z = x - y
	case Divided:
		if y == 0 {
			return nil, errDivisionByZero
		}
		z = x / y
	case Power:
		z = math.Pow(x, y)
	default:
		z = x * y
	}
	if math.IsInf(z, 0) || math.IsNaN(z) {
		return nil, errors.New("the result exceeds the range of a number")
	}
	return z, nil
}

// ToFloat returns a number as a float64, or an error that names a number that a float64
// would round.
func ToFloat(v any) (float64, error) {
	switch v := v.(type) {
	case float64:
		return v, nil
	case int64:
		f := float64(v)
		if f < 1<<63 && int64(f) == v {
			return f, nil
		}
		return 0, roundedError(strconv.FormatInt(v, 10))
	case json.Number:
		f, err := strconv.ParseFloat(string(v), 64)
		if err == nil && keepsDigits(f, string(v)) {
			return f, nil
		}
		return 0, roundedError(string(v))
	}
	return 0, fmt.Errorf("expected a number, got %T", v)
}

// maxNamed bounds the digits of a number in an error.
const maxNamed = 60

func roundedError(text string) error {
	if len(text) > maxNamed {
		text = text[:maxNamed] + "…"
	}
	return fmt.Errorf("cannot compute with %s as a decimal: it would lose digits", text)
}
