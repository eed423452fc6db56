package tool

import (
	"net/http"
	"slices"
	"strings"

	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

// Check warns about a timeout that sets no limit, and about unused parameters.
func (c *httpConfig) Check(n *spec.Node) spec.Diagnostics {
	ds := CheckTimeout(n)
	if c.sendsArgs() {
		return ds
	}
	return append(ds, c.Tool.checkUnusedParams(n, c.usedArgs(n))...)
}

// Check warns about a timeout that sets no limit, and about unused parameters.
func (c *exprConfig) Check(n *spec.Node) spec.Diagnostics {
	used := exprArgs(c.Value)
	for _, e := range c.Writes.Exprs() {
		used = append(used, exprArgs(e)...)
	}
	if len(used) == 0 {
		return CheckTimeout(n) // callbacks may use the arguments instead
	}
	return append(CheckTimeout(n), c.Tool.checkUnusedParams(n, used)...)
}

// sendsArgs reports whether the request body contains all arguments.
func (c *httpConfig) sendsArgs() bool {
	return c.Body == nil && slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch}, c.Method)
}

// allArgs marks that the arguments are used as a whole.
const allArgs = "*"

// usedArgs lists the arguments that the request's templates use.
func (c *httpConfig) usedArgs(n *spec.Node) []string {
	var u StateUse
	var used []string
	for _, key := range []string{"url", "query", "headers", "body"} {
		u.AddTexts(n.Get(key), isCallName)
	}
	for _, t := range u.Texts {
		paths, err := template.ParsePaths(t.Text.Value)
		if err != nil {
			continue
		}
		for _, ref := range paths.Refs() {
			if root, rest, _ := strings.Cut(ref.Name, "."); root == "args" {
				name, _, _ := strings.Cut(rest, ".")
				used = append(used, name)
			}
		}
	}
	return used
}

func exprArgs(e spec.Expr) []string {
	uses := template.UsesOf(e.Value, "args")
	var used []string
	for _, m := range uses.Members {
		used = append(used, m.Name)
	}
	if uses.Whole {
		used = append(used, allArgs)
	}
	return used
}

// checkUnusedParams warns about parameters that a model has to fill in but that
// nothing uses. With confirm set they may serve the person who confirms.
func (c *toolConfig) checkUnusedParams(n *spec.Node, used []string) spec.Diagnostics {
	params := n.Get("params")
	if params == nil || c.Confirm.Pos != (spec.Pos{}) || slices.ContainsFunc(used, c.isUndeclared) {
		return nil
	}
	fields := params
	if schema := c.Params.JSON(); len(asMap(schema["properties"])) > 0 && params.Get("properties") != nil {
		fields = params.Get("properties")
	}
	var ds spec.Diagnostics
	for _, e := range fields.Entries {
		if _, ok := asMap(c.Params.JSON()["properties"])[e.Key.Value]; ok && !slices.Contains(used, e.Key.Value) {
			ds = append(ds, e.Key.Warnf("unused-param", "tool %s does not use its parameter %s", c.Name.Value, e.Key.Value).
				WithHint("use {args.%s} or args.%[1]s, or remove the parameter", e.Key.Value))
		}
	}
	return ds
}

// isUndeclared reports whether a used name is not a declared parameter: either
// all parameters are used, or the name itself is the problem.
func (c *toolConfig) isUndeclared(name string) bool {
	_, ok := asMap(c.Params.JSON()["properties"])[name]
	return !ok
}

// CheckTimeout warns about a timeout that sets no limit.
func CheckTimeout(n *spec.Node) spec.Diagnostics {
	at := n.Get("timeout")
	var d spec.Duration
	if at.IsNull() || d.DecodeSpec(at).HasErrors() || d > 0 {
		return nil
	}
	return spec.Diagnostics{at.Warnf("timeout", "timeout %s sets no limit: a call may run forever", at.Value).
		WithHint("set a maximum duration, such as 10s")}
}
