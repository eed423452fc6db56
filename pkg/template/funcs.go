package template

import (
	"hash/fnv"
	"maps"
	"slices"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/conf"
)

// A function is what an expression calls. The arguments are checked for their
// number only; args is valid during the call.
type function func(m *meter, args []any) (any, error)

// newFunctions tells the checker about those functions that the expression
// language does not have.
func newFunctions(c *conf.Config) {
	expr.Function("hash", nil, new(func(any) int))(c)
	expr.Function("json", nil, new(func(any) string))(c)
	expr.Function("redact", nil, new(func(string) string))(c)
}

// meteredFunctions are all functions and operators that can cost much, and
// those of the language that would not give the same result each time or
// would print in Go's notation.
func meteredFunctions() map[string]function {
	table := map[string]function{
		"hash":     hashOf,
		"json":     jsonOf,
		"toJSON":   toJSON,
		"redact":   redactIn,
		"string":   stringOf,
		"fromJSON": fromJSON,
		"keys":     keysOf,
		"values":   valuesOf,
		"toPairs":  pairsOf,
		"take":     take,
	}
	maps.Copy(table, operators())
	maps.Copy(table, meteredBuiltins())
	return table
}

// installFunctions makes the functions known to the compiler. The guard adds the
// meter as the first argument of each call.
func installFunctions(table map[string]function) expr.Option {
	return func(c *conf.Config) {
		for name, fn := range table {
			expr.Function(name, func(args ...any) (any, error) {
				return fn(args[0].(*meter), args[1:])
			})(c)
		}
	}
}

// hashOf is FNV-1a over the value's JSON, cut to the 53 bits that every reader
// of JSON keeps.
func hashOf(m *meter, args []any) (any, error) {
	s, err := jsonOf(m, args)
	if err != nil {
		return nil, err
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(s.(string)))
	return int(h.Sum64() >> 11), nil
}

func jsonOf(m *meter, args []any) (any, error) {
	return printed(m, args[0], compactJSON)
}

func toJSON(m *meter, args []any) (any, error) {
	return printed(m, args[0], indentedJSON)
}

// stringOf prints a value as texts do.
func stringOf(m *meter, args []any) (any, error) {
	if s, ok := args[0].(string); ok {
		return s, nil
	}
	return printed(m, args[0], String)
}

// printed looks at the size before, because a small value may print long, and
// after, because weight is a guess.
func printed(m *meter, v any, text func(any) string) (any, error) {
	v, err := normal(v, m)
	if err != nil {
		return nil, err
	}
	if weight(v, maxDepth) > 4*maxText {
		return nil, m.text(maxText + 1)
	}
	s := text(v)
	return s, m.text(len(s))
}

func redactIn(m *meter, args []any) (any, error) {
	s := args[0].(string)
	if err := m.text(len(s)); err != nil {
		return nil, err
	}
	return redact(s), nil
}

func keysOf(m *meter, args []any) (any, error) {
	pairs, err := sortedPairs(m, args[0])
	return pick(pairs, 0), err
}

func valuesOf(m *meter, args []any) (any, error) {
	pairs, err := sortedPairs(m, args[0])
	return pick(pairs, 1), err
}

func pairsOf(m *meter, args []any) (any, error) {
	pairs, err := sortedPairs(m, args[0])
	list := make([]any, len(pairs))
	for i, p := range pairs {
		list[i] = p
	}
	return list, err
}

func pick(pairs [][]any, i int) []any {
	list := make([]any, len(pairs))
	for n, p := range pairs {
		list[n] = p[i]
	}
	return list
}

// sortedPairs gives the members of a map in the order of their keys.
func sortedPairs(m *meter, v any) ([][]any, error) {
	members, ok := stringMap(v)
	if !ok {
		return nil, &Error{Msg: "expected a map, but got " + noun(v)}
	}
	pairs := make([][]any, 0, len(members))
	for _, k := range slices.Sorted(maps.Keys(members)) {
		pairs = append(pairs, []any{k, members[k]})
	}
	return pairs, m.spend(len(pairs))
}
