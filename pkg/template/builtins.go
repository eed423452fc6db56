package template

import (
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/vm/runtime"
)

// A price asks the meter for what a call with these arguments will cost.
type price func(m *meter, args []any) error

// meteredBuiltins are the functions of the language that build texts or walk
// through values, each behind its price.
func meteredBuiltins() map[string]function {
	prices := map[string]price{
		"upper": priceOfText, "lower": priceOfText, "toBase64": priceOfText, "fromBase64": priceOfText,
		"replace": priceOfReplace, "repeat": priceOfRepeat, "join": priceOfJoin,
		"split": priceOfSplit, "splitAfter": priceOfSplit,
		"reverse": priceOfList, "concat": priceOfList, "sort": priceOfList, "fromPairs": priceOfList,
		"min": priceOfDepth, "max": priceOfDepth, "mean": priceOfDepth, "median": priceOfDepth,
		"flatten": priceOfDepth, "uniq": priceOfPairs, "trim": priceOfTrim,
	}
	table := make(map[string]function, len(prices))
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

// take accepts a whole number in either form.
func take(m *meter, args []any) (any, error) {
	if err := m.spend(1); err != nil {
		return nil, err
	}
	return callBuiltin(builtin.Builtins[builtin.Index["take"]], []any{args[0], whole(args[1])})
}

func priceOfText(m *meter, args []any) error { return m.text(textLen(args, 0)) }

func priceOfReplace(m *meter, args []any) error {
	s, from, to := textOf(args, 0), textOf(args, 1), textOf(args, 2)
	return m.text(len(s) + strings.Count(s, from)*max(0, len(to)-len(from)))
}

func priceOfRepeat(m *meter, args []any) error {
	n := min(runtime.ToInt(args[1]), maxText+1)
	return m.text(textLen(args, 0) * n)
}

func priceOfJoin(m *meter, args []any) error {
	if err := m.deep(args[0]); err != nil {
		return err
	}
	return m.text(weight(args[0], maxDepth) + length(args[0])*textLen(args, 1))
}

func priceOfSplit(m *meter, args []any) error {
	s, sep := textOf(args, 0), textOf(args, 1)
	if sep == "" {
		return m.spend(utf8.RuneCountInString(s))
	}
	return m.spend(1 + strings.Count(s, sep))
}

func priceOfList(m *meter, args []any) error {
	for _, arg := range args {
		if err := m.spend(length(arg)); err != nil {
			return err
		}
	}
	return nil
}

func priceOfDepth(m *meter, args []any) error { return m.deep(args...) }

// priceOfTrim is for looking up each letter in the set of letters to remove.
func priceOfTrim(m *meter, args []any) error {
	return m.spend(textLen(args, 0) * textLen(args, 1) / 256)
}

// priceOfPairs is for what compares each element with each other.
func priceOfPairs(m *meter, args []any) error {
	n := length(args[0])
	if err := m.spend(n * n / 8); err != nil {
		return err
	}
	return m.deep(args...)
}

func textOf(args []any, i int) string {
	if i >= len(args) {
		return ""
	}
	s, _ := args[i].(string)
	return s
}

func textLen(args []any, i int) int { return len(textOf(args, i)) }
