package template

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"
)

// An expression computes with untrusted values, within limits:
//
//	source → replaceLiterals → checkTypes → guard → program → Eval with a meter → JSON value
//
//  1. replaceLiterals (literals.go) replaces numbers that int64 and float64 cannot hold with names
//     of the same length, so that positions stay.
//  2. checkTypes checks the source as written, with the types that the [Env] declares. Its errors
//     are those that authors see.
//  3. The guard (guard.go) rewrites the syntax tree: loops and expensive operations charge the
//     meter, operators compute exactly (numbers.go), a missing member is nil.
//  4. The rewritten tree is compiled without types, since a value may be nil or have another type
//     than declared.
//  5. Eval runs the program with a meter (meter.go) and copies the result into JSON types.
//
// The expression library limits syntax nodes and list elements, but neither time nor string sizes,
// and it does not check the context. Go cannot stop a goroutine from outside, and our own
// interpreter would be a second language. So the guard puts the checks into the program.
//
// Invariants, whatever the expression and the values:
//   - Work charges the meter before it begins, unless the source length bounds it.
//   - An evaluation has no effect: it only reads vars, calls declared functions and the methods of
//     times, and shares no map or list with its result.
//   - Equal variables give equal results: no clock, no random numbers, no map order.
//   - A bug in the library ends as an [*Error]; it does not crash the host.

// An Env declares the names that an expression may use, each with a sample
// value that determines its type, or nil for any type:
//
//   - a map[string]any allows any members; those in the sample have its types;
//   - an Env allows exactly its members;
//   - a []any with one element is a list of that type, any other []any a list
//     of any type;
//   - a function may be called; the variables of an evaluation supply the
//     implementation, whose error fails the evaluation.
type Env map[string]any

// An Expr is a compiled expression. It is immutable and safe for concurrent use.
type Expr struct {
	program   *vm.Program
	names     []string       // the Env names that the expression reads
	operators map[string]any // the numberOperators that it uses
	runs      sync.Pool
}

// Compile checks and compiles an expression. The error is an [*Error] with the
// position of the first problem.
func Compile(src string, env Env) (*Expr, error) {
	return compileExpr(src, env, false)
}

// CompileBool is [Compile] for boolean expressions. Nil counts as false, and so
// does a missing member.
func CompileBool(src string, env Env) (*Expr, error) {
	return compileExpr(src, env, true)
}

// Eval evaluates the expression within the package's limits. Env names that are not in vars are
// nil. The result is a JSON value, with integers as int64, and numbers that int64 and float64
// cannot hold as json.Number; it shares no map or list with vars. Eval only reads vars, which must
// not change meanwhile. Vars may hold a [*Budget] under [BudgetName], shared by many evaluations.
// The error is an [*Error]; it wraps the context's error, or a called function's.
func (e *Expr) Eval(ctx context.Context, vars map[string]any) (any, error) {
	budget, _ := vars[BudgetName].(*Budget)
	if err := budget.checkLimits(); err != nil {
		return nil, err
	}
	r := e.acquireRun()
	defer e.releaseRun(r)
	r.meter.startMeter(ctx, budget)
	defer r.meter.releaseSlot()
	for _, name := range e.names {
		r.vars[name] = convertVariable(vars[name])
	}
	v, err := r.machine.Run(e.program, r.vars)
	if err == nil {
		v, err = normalizeResult(v, &r.meter)
	}
	budget.chargeEvaluation(&r.meter, v)
	if err != nil {
		failed := convertError(e.program.Source().String(), err)
		if r.meter.cancelled {
			failed.cause = ctx.Err()
		}
		return nil, failed
	}
	return v, nil
}

// Bool evaluates an expression compiled by [CompileBool]. The errors are those of
// [Expr.Eval].
func (e *Expr) Bool(ctx context.Context, vars map[string]any) (bool, error) {
	v, err := e.Eval(ctx, vars)
	if err != nil {
		return false, err
	}
	b, ok := v.(bool)
	if !ok && v != nil {
		return false, &Error{Msg: fmt.Sprintf("the expression must be a boolean, got %s", valueNoun(v))}
	}
	return b, nil
}

// A run is one evaluation's memory, pooled for reuse.
type run struct {
	machine vm.VM
	vars    map[string]any
	meter   meter
}

func (e *Expr) acquireRun() *run {
	if r, ok := e.runs.Get().(*run); ok {
		return r
	}
	r := &run{machine: vm.VM{MemoryBudget: maxValues}, vars: make(map[string]any, len(e.names)+len(e.operators)+2)}
	r.vars[meterName] = &r.meter
	r.vars[countName] = r.meter.countIteration
	maps.Copy(r.vars, e.operators)
	return r
}

// releaseRun returns a run to the pool unless its stack has grown large.
func (e *Expr) releaseRun(r *run) {
	if cap(r.machine.Stack) > 1024 {
		return
	}
	clear(r.machine.Stack[:cap(r.machine.Stack)])
	clear(r.machine.Variables)
	for _, name := range e.names {
		r.vars[name] = nil
	}
	e.runs.Put(r)
}

// compileExpr compiles the source twice. The first pass checks it as written,
// with the declared types, for the best error messages. The second pass builds
// the guarded program without types: values at run time may be nil or have
// another type, and code specialized to a type would fail on them.
func compileExpr(src string, env Env, wantBool bool) (_ *Expr, err error) {
	// A bug in the compiler must not crash the host that loads a file.
	defer func() {
		if r := recover(); r != nil {
			err = &Error{Msg: "the expression cannot be compiled"}
		}
	}()
	if len(src) > maxSource {
		return nil, &Error{Msg: "the expression exceeds the limit of 16 KiB"}
	}
	src, large := replaceLiterals(src)
	if err := checkTypes(src, env, large, wantBool); err != nil {
		failed := compileError(src, env, err)
		failed.Msg, failed.Hint = large.restoreLiterals(failed.Msg), large.restoreLiterals(failed.Hint)
		return nil, failed
	}
	program, g, err := buildProgram(src, env, large)
	if err != nil {
		return nil, err
	}
	return &Expr{program: program, names: g.names, operators: g.operators}, nil
}

// buildProgram builds a checked expression's program.
func buildProgram(src string, env Env, large literals) (*vm.Program, *guard, error) {
	g := &guard{env: env, large: large, metered: meteredFunctions(), operators: map[string]any{}}
	names := looseType(env)
	for name := range large {
		names[name] = types.Any
	}
	program, err := expr.Compile(src, expr.Env(names), installFunctions(g.metered), configureLimits, expr.Patch(g))
	if err == nil {
		err = g.firstError(src)
	}
	if err != nil {
		failed := convertError(src, err)
		failed.Hint = large.restoreLiterals(findForeignForm(src, failed.Offset))
		return nil, nil, failed
	}
	return program, g, nil
}

// checkTypes type-checks the expression as written.
func checkTypes(src string, env Env, large literals, wantBool bool) error {
	names := envType(env)
	for name := range large {
		names[name] = types.Float
	}
	c := conf.New(names)
	configureLimits(c)
	declareFunctions(c)
	for name := range c.Disabled {
		delete(c.Builtins, name)
	}
	if wantBool {
		expr.AsBool()(c)
	}
	_, err := checker.ParseCheck(src, c)
	return err
}

func configureLimits(c *conf.Config) {
	c.MaxNodes = maxNodes
	c.Optimize = false // otherwise it folds ranges into constants, however large
	for _, name := range disabledBuiltins() {
		c.Disabled[name] = true
	}
}

func envType(env Env) types.Map {
	m := make(types.Map, len(env))
	for name, sample := range env {
		m[name] = sampleType(sample)
	}
	return m
}

func sampleType(sample any) types.Type {
	switch s := sample.(type) {
	case nil:
		return types.Any
	case Env:
		return envType(s)
	case map[string]any:
		m := envType(s)
		m[types.Extra] = types.Any
		return m
	case []any:
		if len(s) == 1 {
			return types.Array(sampleType(s[0]))
		}
		return types.Array(types.Any)
	default:
		return types.TypeOf(s)
	}
}

// looseType keeps only the types that determine what may be called.
func looseType(env Env) types.Map {
	m := make(types.Map, len(env)+1)
	for name, sample := range env {
		m[name] = types.Any
		if t := reflect.TypeOf(sample); t != nil && (t.Kind() == reflect.Func || isTime(t)) {
			m[name] = types.TypeOf(sample)
		}
	}
	m[meterName] = types.TypeOf(&meter{})
	m[countName] = types.TypeOf((&meter{}).countIteration)
	for name, apply := range numberOperators() {
		m[name] = types.TypeOf(apply)
	}
	return m
}

// The operand after these is a string, or a value that is likely a string.
var (
	beforeText  = regexp.MustCompile(`\b(contains|startsWith|endsWith|matches)\s*$`)
	beforeValue = regexp.MustCompile(`[=!]=\s*$`)
)

// compileError is convertError for checker errors, with a hint for a misspelled name.
func compileError(src string, env Env, err error) *Error {
	e := convertError(src, err)
	if strings.TrimSpace(src) == "" {
		e.Offset, e.Msg = 0, "the expression is empty"
		return e
	}
	if name, ok := strings.CutPrefix(e.Msg, "unknown name "); ok {
		if strings.HasPrefix(src[e.Offset+len(name):], "(") {
			e.Msg = "unknown function " + name
		}
		candidates := append(slices.Sorted(maps.Keys(env)), "true", "false", "nil")
		isCall := strings.HasPrefix(strings.TrimLeft(src[e.Offset+len(name):], " "), "(")
		if isCall {
			candidates = append(candidates, functionNames()...)
		}
		near, literal := foreignLiterals()[name]
		if !literal {
			near = findNearName(name, candidates)
		}
		if beforeText.MatchString(src[:e.Offset]) || near == "" && beforeValue.MatchString(src[:e.Offset]) {
			e.Msg += "; strings need quotes: \"" + name + "\""
		} else if owner := findOwner(name, env); owner != "" && !isCall && !literal {
			e.suggestName(name, owner)
		} else if _, ok := env["state"]; ok && near == "" && !isCall && !strings.HasPrefix(src[e.Offset+len(name):], ".") {
			e.Name, e.Near = name, "state."+name
			e.Hint = "write " + e.Near + " for a state key"
			if _, ok := env["args"]; ok {
				e.Hint += ", or args." + name + " for an argument"
			}
		} else {
			e.suggestName(name, near)
		}
	}
	if name, ok := strings.CutPrefix(e.Msg, "unknown field "); ok {
		owner := ownerPath(src[:e.Offset])
		e.Msg = "unknown member " + name
		e.suggestName(name, findNearName(name, envMembers(env, owner)))
	}
	if hint := findForeignForm(src, e.Offset); hint != "" {
		e.Hint = hint
	}
	return e
}

// ownerPath returns the path at the end of s, without its last dot.
func ownerPath(s string) string {
	s = strings.TrimRight(s, ".?")
	start := strings.LastIndexFunc(s, func(r rune) bool { return r != '.' && !isLetter(r) && !isLetterOrDigit(r) })
	return s[start+1:]
}

func envMembers(env Env, path string) []string {
	for _, name := range strings.Split(path, ".") {
		inner, ok := env[name].(Env)
		if !ok {
			return nil
		}
		env = inner
	}
	return slices.Sorted(maps.Keys(env))
}

// suggestName adds a "did you mean" question, unless near is empty.
func (e *Error) suggestName(name, near string) {
	if near != "" {
		e.Msg += "; did you mean " + near + "?"
		e.Name, e.Near = name, near
	}
}

// foreignLiterals maps other languages' literals to ours.
func foreignLiterals() map[string]string {
	return map[string]string{
		"null": "nil", "None": "nil", "undefined": "nil", "True": "true", "False": "false",
		"yes": "true", "Yes": "true", "on": "true", "On": "true", "always": "true",
		"no": "false", "No": "false", "off": "false", "Off": "false", "never": "false",
	}
}

// findNearName returns the candidate nearest to name, or "".
func findNearName(name string, candidates []string) string {
	best, least := "", 1+max(1, len(name)/3)
	for _, c := range candidates {
		if d := editDistance(name, c); d < least && d < len(c) {
			best, least = c, d
		}
	}
	return best
}

// editDistance counts the bytes to insert, delete, replace or swap with their
// neighbor.
func editDistance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := last[j]
			if a[i] != b[j] {
				cost++
			}
			row[j+1] = min(cost, row[j]+1, last[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
