package template

import (
	"math"
	"reflect"
	"regexp"
	"regexp/syntax"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm/runtime"

	"agenthost/internal/number"
)

// Internal functions and variables in a guarded program. An expression cannot refer to them,
// because their names contain a space.
const (
	meterName   = "the meter"
	countName   = "the tick"
	abortName   = "the stop"
	boolName    = "the truth"
	iterateName = "the elements"
	addName     = "the sum"
	negateName  = "the negation"
	sortName    = "the order"
	boundName   = "the bound"
	equalName   = "the equality"
	inName      = "the membership"
	matchesName = "the match"
)

// A meteredFunc implements an expression language function. The argument count is checked, the
// types are not; args is valid during the call only.
type meteredFunc func(m *meter, args []any) (any, error)

func operators() map[string]meteredFunc {
	return map[string]meteredFunc{
		abortName:   abortEvaluation,
		boolName:    toBool,
		iterateName: iterateElements,
		addName:     addValues,
		equalName:   equalValues,
		inName:      containsValue,
		matchesName: matchPattern,
		boundName:   checkBound,
	}
}

// abortEvaluation ends an evaluation whose iteration check failed.
func abortEvaluation(m *meter, _ []any) (any, error) { return nil, m.limitErr }

// iterateElements charges for a list that a loop is about to read, and returns it.
func iterateElements(m *meter, args []any) (any, error) {
	list := args[0]
	if !isList(list) {
		return nil, &Error{Msg: "expected a list, got " + valueNoun(list)}
	}
	return list, m.spendSteps(elementCount(list) / 2)
}

func isList(v any) bool {
	if _, ok := v.([]any); ok {
		return true
	}
	kind := reflect.ValueOf(v).Kind()
	return kind == reflect.Slice || kind == reflect.Array
}

func toBool(_ *meter, args []any) (any, error) {
	switch v := args[0].(type) {
	case nil:
		return false, nil
	case bool:
		return v, nil
	default:
		return nil, &Error{Msg: "expected a boolean, got " + valueNoun(v)}
	}
}

func addValues(m *meter, args []any) (any, error) {
	l, ok := args[0].(string)
	r, both := args[1].(string)
	if !ok || !both {
		return computeBy(number.Plus, runtime.Add)(args[0], args[1]), nil
	}
	if err := m.chargeText(len(l) + len(r)); err != nil {
		return nil, err
	}
	return l + r, nil
}

// checkBound rejects a range bound that an int would wrap or round.
func checkBound(_ *meter, args []any) (any, error) {
	v, ok := exactNumber(args[0])
	if !ok {
		return args[0], nil
	}
	if f, err := number.ToFloat(v); err != nil || math.Abs(f) > maxSafeInteger {
		return nil, &Error{Msg: "a range cannot start or end at " + shortText(v)}
	}
	return args[0], nil
}

// wholeNumber converts a number without fraction to an int; other values are
// unchanged.
func wholeNumber(v any) any {
	switch n := v.(type) {
	case int64:
		return int(n)
	case float64:
		if n == math.Trunc(n) && math.Abs(n) < maxSafeInteger {
			return int(n)
		}
	}
	return v
}

func equalValues(m *meter, args []any) (any, error) {
	if elementCount(args[0]) > 0 && elementCount(args[1]) > 0 {
		if err := m.chargeValues(args...); err != nil {
			return nil, err
		}
	}
	return isEqual(args[0], args[1])
}

func containsValue(m *meter, args []any) (any, error) {
	var err error
	if elementCount(args[0]) > 0 {
		err = m.chargeValues(args...)
	} else {
		err = m.spendSteps(elementCount(args[1]) / 8)
	}
	if err != nil {
		return nil, err
	}
	if isList(args[1]) {
		return isInList(reflect.ValueOf(args[1]), args[0])
	}
	return runtime.In(args[0], args[1]), nil
}

// elementCount returns how many elements a list or map has, and 0 for any other value.
func elementCount(v any) int {
	switch v := v.(type) {
	case nil, string, bool, int, int64, float64:
		return 0
	case []any:
		return len(v)
	case map[string]any:
		return len(v)
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		return r.Len()
	}
	return 0
}

// A compiledPattern is a regular expression with its cost per input byte.
type compiledPattern struct {
	re           *regexp.Regexp
	stepsPerByte int
}

// compileLiteral compiles a literal pattern once. The checker has validated it.
func compileLiteral(n ast.Node) ast.Node {
	s, ok := n.(*ast.StringNode)
	if !ok {
		return n
	}
	p, err := compilePattern(s.Value)
	if err != nil {
		return n
	}
	return &ast.ConstantNode{Value: p}
}

const maxPattern = 1024

func compilePattern(s string) (*compiledPattern, error) {
	if len(s) > maxPattern {
		return nil, &Error{Msg: "the pattern exceeds the limit of 1 KiB"}
	}
	re, err := regexp.Compile(s)
	if err != nil {
		return nil, &Error{Msg: err.Error()}
	}
	parsed, err := syntax.Parse(s, syntax.Perl)
	if err != nil {
		return nil, &Error{Msg: err.Error()}
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, &Error{Msg: err.Error()}
	}
	return &compiledPattern{re: re, stepsPerByte: len(prog.Inst)}, nil
}

// matchPattern takes time linear in input and pattern and cannot be interrupted,
// so it charges the meter first.
func matchPattern(m *meter, args []any) (any, error) {
	if args[0] == nil || args[1] == nil {
		return false, nil
	}
	s, ok := args[0].(string)
	if !ok {
		return nil, &Error{Msg: "expected a string, got " + valueNoun(args[0])}
	}
	p, err := patternArg(m, args[1])
	if err != nil {
		return nil, err
	}
	if err := m.spendSteps(len(s) * p.stepsPerByte / 16); err != nil {
		return nil, err
	}
	return p.re.MatchString(s), nil
}

func patternArg(m *meter, v any) (*compiledPattern, error) {
	switch v := v.(type) {
	case *compiledPattern:
		return v, nil
	case string:
		if err := m.spendSteps(stepsPerCheck); err != nil {
			return nil, err
		}
		return compilePattern(v)
	default:
		return nil, &Error{Msg: "expected a pattern, got " + valueNoun(v)}
	}
}
