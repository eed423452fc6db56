package template

import (
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/vm/runtime"
)

// A chargeFunc charges the meter for a call with these arguments before it runs.
type chargeFunc func(m *meter, args []any) error

// meteredBuiltins returns the built-in functions that build strings or traverse
// values, each charged before it runs.
func meteredBuiltins() map[string]meteredFunc {
	prices := map[string]chargeFunc{
		"upper": chargeString, "lower": chargeString, "toBase64": chargeString, "fromBase64": chargeString,
		"replace": chargeReplace, "repeat": chargeRepeat, "join": chargeJoin,
		"split": chargeSplit, "splitAfter": chargeSplit,
		"reverse": chargeElements, "concat": chargeElements, "sort": chargeElements, "fromPairs": chargeElements,
		"min": chargeNested, "max": chargeNested, "mean": chargeNested, "median": chargeNested,
		"flatten": chargeNested, "uniq": chargePairs, "trim": chargeTrim,
	}
	table := make(map[string]meteredFunc, len(prices))
	for name, price := range prices {
		fn := builtin.Builtins[builtin.Index[name]]
		table[name] = func(m *meter, args []any) (any, error) {
			if err := price(m, args); err != nil {
				return nil, err
			}
			return callBuiltin(fn, args)
		}
	}
	return table
}

func callBuiltin(fn *builtin.Function, args []any) (any, error) {
	switch {
	case fn.Fast != nil:
		return fn.Fast(args[0]), nil
	case fn.Safe != nil:
		v, _, err := fn.Safe(args...)
		return v, err
	default:
		return fn.Func(args...)
	}
}

// takeElements is the built-in take; its count may be a float without fraction.
func takeElements(m *meter, args []any) (any, error) {
	if err := m.spendSteps(1); err != nil {
		return nil, err
	}
	return callBuiltin(builtin.Builtins[builtin.Index["take"]], []any{args[0], wholeNumber(args[1])})
}

func chargeString(m *meter, args []any) error { return m.chargeText(stringArgLen(args, 0)) }

func chargeReplace(m *meter, args []any) error {
	s, from, to := stringArg(args, 0), stringArg(args, 1), stringArg(args, 2)
	return m.chargeText(len(s) + strings.Count(s, from)*max(0, len(to)-len(from)))
}

func chargeRepeat(m *meter, args []any) error {
	n := min(runtime.ToInt(args[1]), maxText+1)
	return m.chargeText(stringArgLen(args, 0) * n)
}

func chargeJoin(m *meter, args []any) error {
	if err := m.chargeValues(args[0]); err != nil {
		return err
	}
	return m.chargeText(printSize(args[0], maxDepth) + elementCount(args[0])*stringArgLen(args, 1))
}

func chargeSplit(m *meter, args []any) error {
	s, sep := stringArg(args, 0), stringArg(args, 1)
	if sep == "" {
		return m.spendSteps(utf8.RuneCountInString(s))
	}
	return m.spendSteps(1 + strings.Count(s, sep))
}

func chargeElements(m *meter, args []any) error {
	for _, arg := range args {
		if err := m.spendSteps(elementCount(arg)); err != nil {
			return err
		}
	}
	return nil
}

func chargeNested(m *meter, args []any) error { return m.chargeValues(args...) }

// chargeTrim covers the lookup of each character in the set to remove.
func chargeTrim(m *meter, args []any) error {
	return m.spendSteps(stringArgLen(args, 0) * stringArgLen(args, 1) / 256)
}

// chargePairs covers functions that compare each element with each other.
func chargePairs(m *meter, args []any) error {
	n := elementCount(args[0])
	if err := m.spendSteps(n * n / 8); err != nil {
		return err
	}
	return m.chargeValues(args...)
}

func stringArg(args []any, i int) string {
	if i >= len(args) {
		return ""
	}
	s, _ := args[i].(string)
	return s
}

func stringArgLen(args []any, i int) int { return len(stringArg(args, i)) }
