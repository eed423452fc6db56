package template

import (
	"context"
	"fmt"
	"sync"

	"github.com/expr-lang/expr/vm"
)

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
	program *vm.Program
	names   []string // the names of Env that the expression reads
	runs    sync.Pool
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

// Eval evaluates the expression within the limits of the package. Names of the
// Env that are not in vars are nil. The result is a JSON value, with integers as
// int64, and shares no map or list with vars. Eval only reads vars, which must
// not change meanwhile. Vars may hold a [*Budget] under [BudgetName], shared by
// many evaluations. The error is an [*Error]; it wraps the context's error, or
// that of a called function.
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
		return nil, e.wrapError(ctx, r, err)
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

// A run is the memory of one evaluation, pooled for reuse.
type run struct {
	machine vm.VM
	vars    map[string]any
	meter   meter
}

func (e *Expr) acquireRun() *run {
	if r, ok := e.runs.Get().(*run); ok {
		return r
	}
	r := &run{machine: vm.VM{MemoryBudget: maxValues}, vars: make(map[string]any, len(e.names)+2)}
	r.vars[meterName] = &r.meter
	r.vars[countName] = r.meter.countIteration
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

func (e *Expr) wrapError(ctx context.Context, r *run, err error) error {
	failed := convertError(e.program.Source().String(), err)
	if r.meter.cancelled {
		failed.cause = ctx.Err()
	}
	return failed
}
