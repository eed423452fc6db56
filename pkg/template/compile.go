package template

import (
	"reflect"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"
)

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
	if err := checkTypes(src, env, wantBool); err != nil {
		return nil, compileError(src, env, err)
	}
	program, g, err := buildProgram(src, env)
	if err != nil {
		return nil, err
	}
	return &Expr{program: program, names: g.names}, nil
}

// buildProgram builds the program of a checked expression.
func buildProgram(src string, env Env) (*vm.Program, *guard, error) {
	g := &guard{env: env, metered: meteredFunctions()}
	program, err := expr.Compile(src, expr.Env(looseType(env)), installFunctions(g.metered), configureLimits, expr.Patch(g))
	if err == nil {
		err = g.firstError(src)
	}
	if err != nil {
		return nil, nil, convertError(src, err)
	}
	return program, g, nil
}

// checkTypes type-checks the expression as written.
func checkTypes(src string, env Env, wantBool bool) error {
	c := conf.New(envType(env))
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
	c.Optimize = false // folds ranges into constants of any size
	for _, name := range disabledBuiltins() {
		c.Disabled[name] = true
	}
}

// disabledBuiltins depend on the clock or on the machine.
func disabledBuiltins() []string { return []string{"now", "timezone"} }

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
	return m
}

// isTime reports whether t is one of the two types whose methods may be called.
func isTime(t reflect.Type) bool {
	return t == reflect.TypeFor[time.Time]() || t == reflect.TypeFor[time.Duration]()
}
