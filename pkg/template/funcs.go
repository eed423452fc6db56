package template

import (
	"hash/fnv"
	"maps"
	"slices"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/conf"
)

// A meteredFunc implements a function of the expression language. The number of
// arguments is checked, their types are not; args is valid during the call only.
type meteredFunc func(m *meter, args []any) (any, error)

// declareFunctions declares to the checker the functions that the expression
// library does not have.
func declareFunctions(c *conf.Config) {
	expr.Function("hash", nil, new(func(any) int))(c)
	expr.Function("json", nil, new(func(any) string))(c)
	expr.Function("redact", nil, new(func(string) string))(c)
}

// meteredFunctions returns all functions and operators that can be expensive, and
// replacements for those of the library whose result is not deterministic or is
// printed in Go's notation.
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
		"take":     takeElements,
	}
	maps.Copy(table, operators())
	maps.Copy(table, meteredBuiltins())
	return table
}

// installFunctions registers the functions with the compiler. The guard adds the
// meter as the first argument of each call.
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

// sortedPairs returns the members of a map, sorted by key.
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
