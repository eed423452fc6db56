package jsonschema

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"unicode/utf8"
	"unsafe"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"agenthost/internal/number"
)

// The bounds for one validation. A step is a schema that meets a value, about 100 ns; what takes
// longer is charged as several.
const (
	maxSteps = 4_000_000
	// maxNested limits the schemas that are open at once, which are stack frames.
	maxNested = 50_000
	// bytesPerStep is how much of a string is read in a step, and patternPerStep how much of string
	// size times pattern size.
	bytesPerStep   = 256
	patternPerStep = 32
	// digitsPerStep is how many digits become a fraction in a step, and bitsPerStep how many bits
	// of two fractions are computed with.
	digitsPerStep = 16
	bitsPerStep   = 32
)

// A BudgetError reports a validation that was ended.
type BudgetError struct{ reason string }

// Error returns the limit.
func (e *BudgetError) Error() string { return e.reason }

// Validate returns an [*InvalidError] for a value that does not match the schema, a [*BudgetError]
// for one that costs too much, and a context's cause when it ends.
func (s *Schema) Validate(ctx context.Context, v any) error {
	return s.runEvaluation(&evaluation{ctx: ctx, schema: s, left: maxSteps}, v)
}

func (s *Schema) runEvaluation(e *evaluation, v any) error {
	e.known = map[meeting]verdict{}
	valid := e.isValid(s.root, nil, v)
	if e.err != nil {
		return e.err
	}
	if valid {
		return nil
	}
	found := &problemList{}
	e.explainMismatch(s.root, nil, v, newReport(found))
	if len(found.problems) == 0 && e.err != nil {
		return e.err
	}
	if len(found.problems) == 0 {
		found.addProblem(problem{message: "the schema refers to itself without a part of the value in between"})
	}
	return &InvalidError{found}
}

// An evaluation validates one value. It first finds out whether the value is valid, and only then
// why it is not: so anyOf schemas that do not match cost no messages.
type evaluation struct {
	ctx    context.Context
	schema *Schema
	// left are the steps that are left, and nested the open schemas.
	left, nested int
	err          error
	// known are the verdicts for schemas that several others name.
	known map[meeting]verdict
	// cycles counts the schemas that met a value again before their verdict.
	cycles int
}

// A meeting is a schema and a value. Validation came to it through the resources in the scope.
type meeting struct {
	schema *jsonschema.Schema
	scope  *scope
	value  identity
}

// An identity distinguishes values: an object and a list by their place in memory.
type identity struct {
	place  unsafe.Pointer
	length int
	scalar any
}

type verdict byte

const (
	isOpen verdict = iota + 1
	isMatch
	isMismatch
)

// A scope has the resources that validation came through, for dynamic references.
type scope struct {
	*resource
	outer *scope
	inner map[*resource]*scope
}

// enterResource returns the scope within a resource.
func (c *scope) enterResource(r *resource) *scope {
	for at := c; at != nil; at = at.outer {
		if at.resource == r {
			return c
		}
	}
	if c == nil {
		return &scope{resource: r, inner: map[*resource]*scope{}}
	}
	if c.inner[r] == nil {
		c.inner[r] = &scope{r, c, map[*resource]*scope{}}
	}
	return c.inner[r]
}

// chargeSteps takes steps from the budget. It returns false once the validation has ended.
func (e *evaluation) chargeSteps(steps int) bool {
	before := e.left
	e.left -= steps
	switch {
	case e.err != nil:
		return false
	case e.left < 0:
		e.err = &BudgetError{fmt.Sprintf("checking the value against its schema exceeds the limit of %d steps", maxSteps)}
	case before>>12 != e.left>>12 && e.ctx.Err() != nil:
		e.err = context.Cause(e.ctx)
	}
	return e.err == nil
}

// isValid reports whether a value matches a schema. It is false once the validation has ended.
func (e *evaluation) isValid(s *jsonschema.Schema, at *scope, v any) bool {
	if !e.chargeSteps(1) {
		return false
	}
	d := e.schema.details[s]
	if d.resource != nil {
		at = at.enterResource(d.resource)
	}
	if !d.isShared {
		return e.checkFrame(&frame{Schema: s, evaluation: e, detail: d, scope: at, value: v})
	}
	key := meeting{s, at, identityOf(v)}
	if kind := kindOf(v); (kind == "string" || kind == "number") && !e.chargeSteps(countSteps(v)-1) {
		return false
	}
	switch e.known[key] {
	case isMatch:
		return true
	case isMismatch:
		return false
	case isOpen:
		e.cycles++
		return false
	}
	e.known[key] = isOpen
	before := e.cycles
	valid := e.checkFrame(&frame{Schema: s, evaluation: e, detail: d, scope: at, value: v})
	switch {
	case e.cycles != before:
		delete(e.known, key) // true only within the schemas that are open now
	case valid:
		e.known[key] = isMatch
	default:
		e.known[key] = isMismatch
	}
	return valid
}

func identityOf(v any) identity {
	switch v := v.(type) {
	case map[string]any:
		return identity{place: reflect.ValueOf(v).UnsafePointer(), length: -1}
	case []any:
		return identity{place: unsafe.Pointer(unsafe.SliceData(v)), length: len(v)}
	}
	if kindOf(v) == "" {
		return identity{length: -2}
	}
	return identity{scalar: v}
}

// kindOf returns a value's JSON Schema type, or "" if it has none.
func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case float64:
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			return "number"
		}
	case json.Number, int64, int:
		return "number"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return ""
}

// A frame is one schema that meets one value.
type frame struct {
	*jsonschema.Schema
	*evaluation
	*detail
	scope *scope
	value any
	// report is nil as long as only the verdict counts: then the first problem ends the frame.
	report *report
}

// reportProblem reports a problem with the value, and returns false.
func (f *frame) reportProblem(problem jsonschema.ErrorKind) bool {
	if f.report != nil {
		f.report.addKind(problem)
	}
	return false
}

// matchesSchema reports whether the value matches another schema; a mismatch is explained.
func (f *frame) matchesSchema(s *jsonschema.Schema) bool { return f.matchesAt(s, f.value, "") }

// matchesAt is matchesSchema for a part of the value.
func (f *frame) matchesAt(s *jsonschema.Schema, v any, name string) bool {
	if f.isValid(s, f.scope, v) {
		return true
	}
	if f.report != nil && f.err == nil {
		f.explainMismatch(s, f.scope, v, f.report.reportAt(name))
	}
	return false
}

// explainMismatch reports why a value does not match a schema.
func (e *evaluation) explainMismatch(s *jsonschema.Schema, at *scope, v any, r *report) {
	d := e.schema.details[s]
	if d.resource != nil {
		at = at.enterResource(d.resource)
	}
	if !r.isFull() && r.beginSchema(s, at) && e.chargeSteps(1) {
		e.checkFrame(&frame{Schema: s, evaluation: e, detail: d, scope: at, value: v, report: r})
	}
}

// checkFrame checks all keywords, or those up to the first problem if there is no report.
func (e *evaluation) checkFrame(f *frame) bool {
	if e.nested++; e.nested > maxNested {
		e.err = &BudgetError{fmt.Sprintf("checking the value against its schema exceeds the limit of %d nested schemas", maxNested)}
	}
	defer func() { e.nested-- }()
	if f.Bool != nil {
		return *f.Bool || f.reportProblem(&kind.FalseSchema{})
	}
	if !f.checkType() || !f.checkValues() {
		return false
	}
	valid := true
	for _, keywords := range []func(*frame) bool{
		(*frame).checkReference, (*frame).checkObject, (*frame).checkArray, (*frame).checkString, (*frame).checkNumber,
		(*frame).checkDynamic, (*frame).checkBranches, (*frame).checkCondition, (*frame).checkUnevaluated,
	} {
		if !keywords(f) {
			valid = false
			if f.report == nil || f.report.isFull() || f.DraftVersion < 2019 && f.Ref != nil {
				return false
			}
		}
		if f.DraftVersion < 2019 && f.Ref != nil {
			return valid // old drafts' other keywords count only without a reference
		}
	}
	return valid && e.err == nil
}

func (f *frame) checkType() bool {
	got := kindOf(f.value)
	if got == "" {
		return f.reportProblem(&kind.InvalidJsonValue{Value: f.value})
	}
	if f.Types == nil || f.Types.IsEmpty() {
		return true
	}
	want := f.Types.ToStrings()
	if slices.Contains(want, got) || got == "number" && slices.Contains(want, "integer") && f.isInteger() {
		return true
	}
	return f.reportProblem(&kind.Type{Got: got, Want: want})
}

// checkValues checks const and enum.
func (f *frame) checkValues() bool {
	if f.Const == nil && f.Enum == nil {
		return true
	}
	if !f.chargeSteps(countSteps(f.value)) {
		return false
	}
	key := keyOf(f.value)
	if f.Const != nil && key != keyOf(*f.Const) {
		return f.reportProblem(&kind.Const{Got: nil, Want: *f.Const})
	}
	if f.Enum != nil && !f.values[key] {
		return f.reportProblem(&kind.Enum{Got: nil, Want: f.Enum.Values})
	}
	return true
}

func (f *frame) checkReference() bool { return f.Ref == nil || f.matchesSchema(f.Ref) }

// checkDynamic checks the references whose target depends on the scope.
func (f *frame) checkDynamic() bool {
	valid := true
	for _, target := range []*jsonschema.Schema{f.findRecursive(), f.findDynamic()} {
		valid = (target == nil || f.matchesSchema(target)) && valid
	}
	return valid
}

// findRecursive returns the target of $recursiveRef, or nil.
func (f *frame) findRecursive() *jsonschema.Schema {
	target := f.RecursiveRef
	if target != nil && target.RecursiveAnchor {
		for at := f.scope; at != nil; at = at.outer {
			if at.isRecursive {
				target = at.root
			}
		}
	}
	return target
}

// findDynamic returns $dynamicRef's target, or nil: the outermost resource with its anchor has it.
func (f *frame) findDynamic() *jsonschema.Schema {
	if f.DynamicRef == nil {
		return nil
	}
	target := f.DynamicRef.Ref
	if name := f.DynamicRef.Anchor; name != "" && target.DynamicAnchor == name {
		for at := f.scope; at != nil; at = at.outer {
			if anchor := at.anchors[name]; anchor != nil {
				target = anchor
			}
		}
	}
	return target
}

func (f *frame) checkString() bool {
	text, ok := f.value.(string)
	if !ok {
		return true
	}
	valid := true
	if f.MinLength != nil || f.MaxLength != nil {
		if !f.chargeSteps(len(text) / bytesPerStep) {
			return false
		}
		n := utf8.RuneCountInString(text)
		if f.MinLength != nil && n < *f.MinLength {
			valid = f.reportProblem(&kind.MinLength{Got: n, Want: *f.MinLength})
		}
		if f.MaxLength != nil && n > *f.MaxLength {
			valid = f.reportProblem(&kind.MaxLength{Got: n, Want: *f.MaxLength})
		}
	}
	if p, ok := f.Pattern.(*pattern); ok && !f.matchPattern(p, text) {
		valid = f.reportProblem(&kind.Pattern{Got: cutText(text, maxShown), Want: p.String()})
	}
	return valid
}

// matchPattern charges for a pattern, and matches it.
func (f *frame) matchPattern(p *pattern, text string) bool {
	return f.chargeSteps(1+len(text)/patternPerStep*p.size) && p.MatchString(text)
}

func (f *frame) checkNumber() bool {
	if f.Minimum == nil && f.Maximum == nil && f.ExclusiveMinimum == nil && f.ExclusiveMaximum == nil && f.MultipleOf == nil || !number.Is(f.value) {
		return true
	}
	n, ok := f.toRational()
	if !ok {
		return f.reportProblem(&longNumber{})
	}
	valid := f.chargeNumbers(n, f.Minimum, f.Maximum, f.ExclusiveMinimum, f.ExclusiveMaximum, f.MultipleOf)
	if f.Minimum != nil && n.Cmp(f.Minimum) < 0 {
		valid = f.reportProblem(&kind.Minimum{Got: n, Want: f.Minimum})
	}
	if f.Maximum != nil && n.Cmp(f.Maximum) > 0 {
		valid = f.reportProblem(&kind.Maximum{Got: n, Want: f.Maximum})
	}
	if f.ExclusiveMinimum != nil && n.Cmp(f.ExclusiveMinimum) <= 0 {
		valid = f.reportProblem(&kind.ExclusiveMinimum{Got: n, Want: f.ExclusiveMinimum})
	}
	if f.ExclusiveMaximum != nil && n.Cmp(f.ExclusiveMaximum) >= 0 {
		valid = f.reportProblem(&kind.ExclusiveMaximum{Got: n, Want: f.ExclusiveMaximum})
	}
	if f.MultipleOf != nil && !new(big.Rat).Quo(n, f.MultipleOf).IsInt() {
		valid = f.reportProblem(&kind.MultipleOf{Got: n, Want: f.MultipleOf})
	}
	return valid
}

// toRational returns the value, a number, as a fraction. ok is false if it has too many digits.
func (f *frame) toRational() (n *big.Rat, ok bool) {
	switch v := f.value.(type) {
	case int64:
		return new(big.Rat).SetInt64(v), true
	case json.Number:
		if !isComputable(v) || !f.chargeSteps(number.CountDigits(v)/digitsPerStep) {
			return nil, false
		}
	}
	return new(big.Rat).SetString(fmt.Sprint(f.value))
}

// chargeNumbers charges for computing with a number and the schema's bounds, some of which are nil.
func (f *frame) chargeNumbers(n *big.Rat, bounds ...*big.Rat) bool {
	steps := 10
	for _, bound := range bounds {
		if bound != nil {
			steps += (countBits(n) + countBits(bound)) / bitsPerStep
		}
	}
	return f.chargeSteps(steps)
}

// countBits returns a fraction's length in bits.
func countBits(n *big.Rat) int { return n.Num().BitLen() + n.Denom().BitLen() }

func (f *frame) isInteger() bool {
	switch v := f.value.(type) {
	case int64, int:
		return true
	case float64:
		return v == math.Trunc(v)
	}
	n, ok := f.toRational()
	return ok && n.IsInt()
}

// checkBranches checks not, allOf, anyOf and oneOf.
func (f *frame) checkBranches() bool {
	valid := true
	if f.Not != nil && f.isValid(f.Not, f.scope, f.value) {
		valid = f.reportProblem(&kind.Not{})
	}
	for _, s := range f.AllOf {
		if valid = f.matchesSchema(s) && valid; !valid && f.report == nil {
			return false
		}
	}
	valid = f.matchesAny(f.AnyOf, 1) && valid
	return f.matchesAny(f.OneOf, 2) && valid
}

// matchesAny reports whether the value matches a branch, and fewer than tooMany if that is more
// than 1.
func (f *frame) matchesAny(branches []*jsonschema.Schema, tooMany int) bool {
	var matched []int
	for i, s := range branches {
		if f.isValid(s, f.scope, f.value) {
			if matched = append(matched, i); len(matched) == tooMany {
				break
			}
		}
	}
	switch {
	case len(branches) == 0 || len(matched) == 1:
		return true
	case len(matched) > 1:
		return f.reportProblem(&kind.OneOf{Subschemas: matched})
	}
	for _, s := range branches {
		if f.report != nil {
			f.matchesSchema(s)
		}
	}
	return false
}

func (f *frame) checkCondition() bool {
	switch {
	case f.If == nil:
		return true
	case f.isValid(f.If, f.scope, f.value):
		return f.Then == nil || f.matchesSchema(f.Then)
	}
	return f.Else == nil || f.err == nil && f.matchesSchema(f.Else)
}
