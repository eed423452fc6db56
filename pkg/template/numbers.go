package template

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/vm/runtime"

	"agenthost/internal/number"
)

// Numbers keep their digits in expressions. The expression library's operators wrap integers that
// overflow, and compare integers with floats after rounding them. The guard replaces them with the
// operators in this file: integers are computed exactly, however large they are, and all numbers
// are compared by their digits. A number that a decimal computation would round is an error that
// names it. Two int64 or two float64 take a short way.

// numberOperators returns the operators by their call names in a guarded program, with types that
// the virtual machine calls without allocating: func(any, any) bool and func(any, any) any. They
// panic with an [*Error], which ends the evaluation.
func numberOperators() map[string]any {
	return map[string]any{
		"the <":    compareBy(func(order int) bool { return order < 0 }, runtime.Less),
		"the <=":   compareBy(func(order int) bool { return order <= 0 }, runtime.LessOrEqual),
		"the >":    compareBy(func(order int) bool { return order > 0 }, runtime.More),
		"the >=":   compareBy(func(order int) bool { return order >= 0 }, runtime.MoreOrEqual),
		"the +":    computeBy(number.Plus, runtime.Add),
		"the -":    computeBy(number.Minus, runtime.Subtract),
		"the *":    computeBy(number.Times, runtime.Multiply),
		"the /":    computeBy(number.Divided, func(a, b any) any { return runtime.Divide(a, b) }),
		"the %":    computeBy(number.Remainder, func(a, b any) any { return runtime.Modulo(a, b) }),
		"the **":   computeBy(number.Power, func(a, b any) any { return runtime.Exponent(a, b) }),
		negateName: negateValue,
	}
}

// compareBy returns an operator that compares numbers by their digits, and other values,
// such as strings and times, as the library does.
func compareBy(holds func(order int) bool, library func(a, b any) bool) func(a, b any) bool {
	return func(a, b any) bool {
		order, ok, err := compareNumbers(a, b)
		switch {
		case err != nil:
			panic(err)
		case ok:
			return holds(order)
		}
		return library(a, b)
	}
}

// computeBy returns an operator that computes with numbers, and with other values, such
// as times, as the library does.
func computeBy(op number.Operator, library func(a, b any) any) func(a, b any) any {
	return func(a, b any) any {
		v, ok := exactNumber(a)
		w, both := exactNumber(b)
		if !ok || !both {
			return library(a, b)
		}
		result, err := number.Compute(v, op, w)
		if err != nil {
			panic(&Error{Msg: err.Error()})
		}
		return result
	}
}

// negateValue is the unary minus; its second operand is nil.
func negateValue(a, _ any) any {
	if v, ok := exactNumber(a); ok {
		return number.Negate(v)
	}
	return runtime.Negate(a)
}

// compareNumbers compares two numbers; ok is false if one is not a number.
func compareNumbers(a, b any) (order int, ok bool, err error) {
	x, isInt := toInt64(a)
	y, both := toInt64(b)
	if isInt && both {
		return cmp.Compare(x, y), true, nil
	}
	f, isFloat := toExactFloat(a, x, isInt)
	g, bothFloats := toExactFloat(b, y, both)
	if isFloat && bothFloats {
		return cmp.Compare(f, g), true, nil
	}
	v, ok := exactNumber(a)
	w, both := exactNumber(b)
	if !ok || !both {
		return 0, false, nil
	}
	if order, ok = number.Compare(v, w); !ok {
		return 0, false, &Error{Msg: fmt.Sprintf("cannot compare %s and %s", shortText(v), shortText(w))}
	}
	return order, true, nil
}

func toInt64(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case int:
		return int64(v), true
	}
	return 0, false
}

// maxSafeInteger is the integer up to which a float64 has all integers.
const maxSafeInteger = 1 << 53

// toExactFloat returns a float64, or an integer that a float64 has exactly.
func toExactFloat(v any, integer int64, isInt bool) (float64, bool) {
	if isInt {
		return float64(integer), -maxSafeInteger <= integer && integer <= maxSafeInteger
	}
	f, ok := v.(float64)
	return f, ok
}

// exactNumber converts a number in any Go type to package number's types.
func exactNumber(v any) (any, bool) {
	switch v := v.(type) {
	case int64, float64:
		return v, true
	case int:
		return int64(v), true
	case json.Number:
		return number.Parse(string(v)), true
	case nil, bool, string, []any, map[string]any, time.Duration:
		return nil, false
	}
	switch r := reflect.ValueOf(v); {
	case r.CanInt():
		return r.Int(), true
	case r.CanUint():
		return number.Parse(strconv.FormatUint(r.Uint(), 10)), true
	case r.CanFloat():
		return r.Float(), true
	}
	return nil, false
}

// shortText prints a number for an error.
func shortText(v any) string {
	s := String(v)
	if len(s) > 60 {
		s = s[:60] + "…"
	}
	return s
}

// isEqual compares two values: numbers by their digits, also inside lists and maps.
func isEqual(a, b any) (bool, error) {
	if order, ok, err := compareNumbers(a, b); ok || err != nil {
		return order == 0, err
	}
	if m, ok := a.(map[string]any); ok {
		n, both := b.(map[string]any)
		return both && len(m) == len(n) && areEqualMaps(m, n), nil
	}
	if isList(a) && isList(b) {
		return areEqualLists(reflect.ValueOf(a), reflect.ValueOf(b))
	}
	return runtime.Equal(a, b), nil
}

func areEqualMaps(m, n map[string]any) bool {
	for key, v := range m {
		w, ok := n[key]
		if !ok {
			return false
		}
		if equal, err := isEqual(v, w); !equal || err != nil {
			return false
		}
	}
	return true
}

func areEqualLists(a, b reflect.Value) (bool, error) {
	if a.Len() != b.Len() {
		return false, nil
	}
	for i := range a.Len() {
		if equal, err := isEqual(a.Index(i).Interface(), b.Index(i).Interface()); !equal || err != nil {
			return false, err
		}
	}
	return true, nil
}

// isInList reports whether a list has an element that equals v.
func isInList(list reflect.Value, v any) (bool, error) {
	for i := range list.Len() {
		if equal, err := isEqual(list.Index(i).Interface(), v); equal || err != nil {
			return equal, err
		}
	}
	return false, nil
}

// numberFunctions returns the functions on numbers that replace the library's.
func numberFunctions() map[string]meteredFunc {
	return map[string]meteredFunc{
		"abs":    absoluteValue,
		"ceil":   roundBy("ceil", math.Ceil),
		"floor":  roundBy("floor", math.Floor),
		"round":  roundBy("round", math.Round),
		"int":    convertToInteger,
		"float":  convertToFloat,
		"max":    selectExtreme("max", 1),
		"min":    selectExtreme("min", -1),
		"mean":   averageNumbers,
		"median": selectMedian,
		"sort":   sortList,
		"uniq":   removeDuplicates,
		"type":   nameType,
		sortName: sortPairs,
	}
}

func callLibrary(name string, args ...any) (any, error) {
	return callBuiltin(builtin.Builtins[builtin.Index[name]], args)
}

func absoluteValue(_ *meter, args []any) (any, error) {
	v, ok := exactNumber(args[0])
	if !ok {
		return callLibrary("abs", args[0])
	}
	if order, ok := number.Compare(v, int64(0)); ok && order < 0 {
		return number.Negate(v), nil
	}
	return v, nil
}

// roundBy rounds floats; an integer stays, however large it is.
func roundBy(name string, round func(float64) float64) meteredFunc {
	return func(_ *meter, args []any) (any, error) {
		v, ok := exactNumber(args[0])
		if !ok {
			return callLibrary(name, args[0])
		}
		if n, ok := v.(json.Number); ok {
			v = number.ParseWhole(string(n))
		}
		if isInteger(v) {
			return v, nil
		}
		f, err := number.ToFloat(v)
		if err != nil {
			return nil, &Error{Msg: err.Error()}
		}
		return round(f), nil
	}
}

// isInteger reports whether a number is written as an integer.
func isInteger(v any) bool {
	switch v := v.(type) {
	case int64:
		return true
	case json.Number:
		return !strings.ContainsAny(string(v), ".eE")
	}
	return false
}

// convertToInteger truncates a number, and parses a string.
func convertToInteger(m *meter, args []any) (any, error) {
	if s, ok := args[0].(string); ok {
		_, err := strconv.Atoi(s)
		if !errors.Is(err, strconv.ErrRange) {
			return callLibrary("int", s)
		}
		if len(s) <= maxIntegerText {
			return number.ParseWhole(strings.TrimPrefix(s, "+")), nil
		}
		return nil, &Error{Msg: "the number exceeds the limit of 400 digits"}
	}
	v, err := roundBy("int", math.Trunc)(m, args)
	if f, ok := v.(float64); ok && err == nil {
		return number.ParseWhole(strconv.FormatFloat(f, 'e', -1, 64)), nil
	}
	return v, err
}

// maxIntegerText limits the digits in a string that becomes an integer.
const maxIntegerText = 400

// convertToFloat converts a number or a string that a float64 has exactly.
func convertToFloat(_ *meter, args []any) (any, error) {
	v, ok := exactNumber(args[0])
	if s, isString := args[0].(string); isString {
		if ok = json.Valid([]byte(s)) && s == strings.TrimSpace(s); ok {
			v = number.Parse(s)
			ok = number.Is(v)
		}
	}
	if !ok {
		f, err := callLibrary("float", args[0])
		if err != nil {
			return nil, err
		}
		return finiteNumber(f.(float64))
	}
	f, err := number.ToFloat(v)
	if err != nil {
		return nil, &Error{Msg: err.Error()}
	}
	return f, nil
}

// flattenNumbers returns the numbers in args and in lists inside args.
func flattenNumbers(name string, args []any) ([]any, error) {
	var numbers []any
	for _, arg := range args {
		if v, ok := exactNumber(arg); ok {
			numbers = append(numbers, v)
			continue
		}
		if !isList(arg) {
			return nil, &Error{Msg: name + " does not take " + valueNoun(arg)}
		}
		list := reflect.ValueOf(arg)
		for i := range list.Len() {
			inner, err := flattenNumbers(name, []any{list.Index(i).Interface()})
			if err != nil {
				return nil, err
			}
			numbers = append(numbers, inner...)
		}
	}
	return numbers, nil
}

// selectExtreme returns the greatest (sign 1) or least (sign -1) number.
func selectExtreme(name string, sign int) meteredFunc {
	return func(m *meter, args []any) (any, error) {
		if err := m.chargeValues(args...); err != nil {
			return nil, err
		}
		numbers, err := flattenNumbers(name, args)
		if err != nil {
			return nil, err
		}
		var best any
		for _, v := range numbers {
			if best == nil {
				best = v
				continue
			}
			order, _, err := compareNumbers(v, best)
			if err != nil {
				return nil, err
			}
			if order == sign {
				best = v
			}
		}
		return best, nil
	}
}

func averageNumbers(m *meter, args []any) (any, error) {
	if err := m.chargeValues(args...); err != nil {
		return nil, err
	}
	numbers, err := flattenNumbers("mean", args)
	if err != nil || len(numbers) == 0 {
		return 0.0, err
	}
	return computeMean(numbers...)
}

func computeMean(numbers ...any) (any, error) {
	var sum any = int64(0)
	for _, v := range numbers {
		var err error
		if sum, err = number.Compute(sum, number.Plus, v); err != nil {
			return nil, &Error{Msg: err.Error()}
		}
	}
	mean, err := number.Compute(sum, number.Divided, int64(len(numbers)))
	if err != nil {
		return nil, &Error{Msg: err.Error()}
	}
	return mean, nil
}

func selectMedian(m *meter, args []any) (any, error) {
	if err := m.chargeValues(args...); err != nil {
		return nil, err
	}
	numbers, err := flattenNumbers("median", args)
	if err != nil || len(numbers) == 0 {
		return 0.0, err
	}
	if err := m.sortBy(numbers, func(v any) any { return v }, false); err != nil {
		return nil, err
	}
	middle := len(numbers) / 2
	if len(numbers)%2 == 1 {
		return numbers[middle], nil
	}
	return computeMean(numbers[middle-1], numbers[middle])
}

// sortList is the function sort.
func sortList(m *meter, args []any) (any, error) {
	if err := chargeElements(m, args); err != nil {
		return nil, err
	}
	if !isList(args[0]) {
		return nil, &Error{Msg: "expected a list, got " + valueNoun(args[0])}
	}
	descending := false
	if len(args) == 2 {
		var err error
		if descending, err = isDescending(args[1]); err != nil {
			return nil, err
		}
	}
	from := reflect.ValueOf(args[0])
	list := make([]any, from.Len())
	for i := range list {
		list[i] = from.Index(i).Interface()
	}
	return list, m.sortBy(list, func(v any) any { return v }, descending)
}

// sortPairs implements sortBy: it sorts pairs (key, element), and returns the elements.
func sortPairs(m *meter, args []any) (any, error) {
	descending, err := isDescending(args[1])
	if err != nil {
		return nil, err
	}
	pairs, _ := args[0].([]any)
	if err := m.sortBy(pairs, func(v any) any { return v.([]any)[0] }, descending); err != nil {
		return nil, err
	}
	for i, pair := range pairs {
		pairs[i] = pair.([]any)[1]
	}
	return pairs, nil
}

func isDescending(order any) (bool, error) {
	if order != "asc" && order != "desc" {
		return false, &Error{Msg: fmt.Sprintf("the order must be asc or desc, got %s", shortText(order))}
	}
	return order == "desc", nil
}

// sortBy sorts a list in place by its elements' keys.
func (m *meter) sortBy(list []any, key func(any) any, descending bool) (err error) {
	comparisons := 0
	slices.SortStableFunc(list, func(a, b any) int {
		if comparisons++; err == nil && comparisons%stepsPerCheck == 0 {
			err = m.checkTime()
		}
		if err != nil {
			return 0
		}
		if descending {
			a, b = b, a
		}
		order := 0
		order, err = compareOrder(key(a), key(b))
		return order
	})
	return err
}

// compareOrder compares two numbers, or two values that the library compares.
func compareOrder(a, b any) (int, error) {
	if order, ok, err := compareNumbers(a, b); ok || err != nil {
		return order, err
	}
	switch {
	case runtime.Less(a, b):
		return -1, nil
	case runtime.Less(b, a):
		return 1, nil
	}
	return 0, nil
}

// removeDuplicates is the function uniq.
func removeDuplicates(m *meter, args []any) (any, error) {
	if err := chargePairs(m, args); err != nil {
		return nil, err
	}
	if !isList(args[0]) {
		return nil, &Error{Msg: "expected a list, got " + valueNoun(args[0])}
	}
	list, unique := reflect.ValueOf(args[0]), []any{}
	for i := range list.Len() {
		v := list.Index(i).Interface()
		found, err := isInList(reflect.ValueOf(unique), v)
		if err != nil {
			return nil, err
		}
		if !found {
			unique = append(unique, v)
		}
	}
	return unique, nil
}

// nameType is the function type.
func nameType(_ *meter, args []any) (any, error) {
	n, ok := args[0].(json.Number)
	switch {
	case !ok:
		return callLibrary("type", args[0])
	case isInteger(n):
		return "int", nil
	}
	return "float", nil
}
