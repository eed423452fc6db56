package template

import (
	"encoding/json"
	"errors"
	"hash/fnv"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/vm/runtime"
)

// declareFunctions declares to the checker the functions that the expression
// library does not have.
func declareFunctions(c *conf.Config) {
	expr.Function("hash", nil, new(func(any) int))(c)
	expr.Function("json", nil, new(func(any) string))(c)
	expr.Function("redact", nil, new(func(string) string))(c)
}

// meteredFunctions returns all functions and operators that can be expensive, and replacements for
// library functions whose result is not deterministic or is printed in Go's notation.
func meteredFunctions() map[string]meteredFunc {
	table := map[string]meteredFunc{
		"hash":     hashValue,
		"json":     encodeJSON,
		"toJSON":   encodeIndentedJSON,
		"redact":   redactValue,
		"string":   printValue,
		"fromJSON": decodeJSON,
		"keys":     sortedKeys,
		"values":   sortedValues,
		"toPairs":  sortedPairList,
		"take":     limitElements,
	}
	maps.Copy(table, operators())
	maps.Copy(table, meteredBuiltins())
	maps.Copy(table, numberFunctions())
	return table
}

// installFunctions registers the functions with the compiler. The guard adds the meter as each
// call's first argument.
func installFunctions(table map[string]meteredFunc) expr.Option {
	return func(c *conf.Config) {
		for name, fn := range table {
			expr.Function(name, func(args ...any) (any, error) {
				return fn(args[0].(*meter), args[1:])
			})(c)
		}
	}
}

// hashValue is FNV-1a over the value's JSON, truncated to the 53 bits that every
// JSON parser preserves.
func hashValue(m *meter, args []any) (any, error) {
	s, err := encodeJSON(m, args)
	if err != nil {
		return nil, err
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(s.(string)))
	return int(h.Sum64() >> 11), nil
}

func encodeJSON(m *meter, args []any) (any, error) {
	return printWithin(m, args[0], compactJSON)
}

func encodeIndentedJSON(m *meter, args []any) (any, error) {
	return printWithin(m, args[0], indentedJSON)
}

// printValue prints a value as a placeholder does.
func printValue(m *meter, args []any) (any, error) {
	if s, ok := args[0].(string); ok {
		return s, nil
	}
	return printWithin(m, args[0], String)
}

// printWithin checks the size before printing, because a small value may print
// long, and after, because printSize is an estimate.
func printWithin(m *meter, v any, text func(any) string) (any, error) {
	v, err := normalizeResult(v, m)
	if err != nil {
		return nil, err
	}
	if printSize(v, maxDepth) > 4*maxText {
		return nil, m.chargeText(maxText + 1)
	}
	s := text(v)
	return s, m.chargeText(len(s))
}

func redactValue(m *meter, args []any) (any, error) {
	s := args[0].(string)
	if err := m.chargeText(len(s)); err != nil {
		return nil, err
	}
	return redactText(s), nil
}

func sortedKeys(m *meter, args []any) (any, error) {
	pairs, err := sortedPairs(m, args[0])
	return pickColumn(pairs, 0), err
}

func sortedValues(m *meter, args []any) (any, error) {
	pairs, err := sortedPairs(m, args[0])
	return pickColumn(pairs, 1), err
}

func sortedPairList(m *meter, args []any) (any, error) {
	pairs, err := sortedPairs(m, args[0])
	list := make([]any, len(pairs))
	for i, p := range pairs {
		list[i] = p
	}
	return list, err
}

func pickColumn(pairs [][]any, i int) []any {
	list := make([]any, len(pairs))
	for n, p := range pairs {
		list[n] = p[i]
	}
	return list
}

// sortedPairs returns a map's members, sorted by key.
func sortedPairs(m *meter, v any) ([][]any, error) {
	members, ok := stringMap(v)
	if !ok {
		return nil, &Error{Msg: "expected a map, got " + valueNoun(v)}
	}
	pairs := make([][]any, 0, len(members))
	for _, k := range slices.Sorted(maps.Keys(members)) {
		pairs = append(pairs, []any{k, members[k]})
	}
	return pairs, m.spendSteps(len(pairs))
}

// functionNames lists the functions that an expression may call.
func functionNames() []string {
	names := []string{"hash", "json", "redact"}
	for _, fn := range builtin.Builtins {
		if !slices.Contains(disabledBuiltins(), fn.Name) {
			names = append(names, fn.Name)
		}
	}
	return names
}

// disabledBuiltins depend on the clock or on the machine.
func disabledBuiltins() []string { return []string{"now", "timezone"} }

// decodeJSON decodes one JSON value; numbers keep their digits.
func decodeJSON(m *meter, args []any) (any, error) {
	s := stringArg(args, 0)
	if err := m.chargeText(len(s)); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(strings.NewReader(s))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, &Error{Msg: "fromJSON: invalid JSON"}
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, &Error{Msg: "fromJSON: unexpected data after the JSON value"}
	}
	return copyValue(v)
}

// A chargeFunc charges the meter for a call with these arguments before it runs.
type chargeFunc func(m *meter, args []any) error

// meteredBuiltins returns the built-in functions that build strings or traverse
// values, each charged before it runs.
func meteredBuiltins() map[string]meteredFunc {
	prices := map[string]chargeFunc{
		"upper": chargeString, "lower": chargeString, "toBase64": chargeString, "fromBase64": chargeString,
		"replace": chargeReplace, "repeat": chargeRepeat, "join": chargeJoin,
		"split": chargeSplit, "splitAfter": chargeSplit,
		"reverse": chargeElements, "concat": chargeElements, "fromPairs": chargeElements,
		"flatten": chargeNested, "trim": chargeTrim,
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

// limitElements is the built-in take; its count may be a float without fraction.
func limitElements(m *meter, args []any) (any, error) {
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

// chargeTrim covers looking up each character in the set to remove.
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

var (
	emailPattern      = regexp.MustCompile(`[\pL\pN._%+\-]+@[\pL\pN\-]+(\.[\pL\pN\-]+)+`)
	longNumberPattern = regexp.MustCompile(`\d{4}-\d{2}-\d{2}\b|\+?\(?\d(?:[ .()/\-]{0,2}\d){8,}`)
	isoDatePattern    = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}$`)
)

// redactText replaces e-mail addresses with [email] and long numbers with
// [number]. A long number, such as a phone, card or account number, has at least
// nine digits, with at most two spaces, dots, hyphens, slashes or parentheses
// between two digits. Dates such as 2026-01-31 are kept.
func redactText(s string) string {
	s = emailPattern.ReplaceAllString(s, "[email]")
	return longNumberPattern.ReplaceAllStringFunc(s, func(found string) string {
		if isoDatePattern.MatchString(found) {
			return found
		}
		return "[number]"
	})
}
