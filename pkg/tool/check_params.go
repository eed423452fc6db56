package tool

import (
	"net/http"
	"slices"
	"strings"

	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

// Check warns of a time limit that is none, and of parameters that nothing
// uses.
func (c *httpConfig) Check(n *spec.Node) spec.Diagnostics {
	ds := checkTimeout(n)
	if c.sendsArgs() {
		return ds
	}
	return append(ds, c.Tool.checkUnusedParams(n, c.usedArgs(n))...)
}

// Check warns of a time limit that is none, and of parameters that nothing
// uses.
func (c *exprConfig) Check(n *spec.Node) spec.Diagnostics {
	used := exprArgs(c.Value)
	for _, e := range c.Writes.Exprs() {
		used = append(used, exprArgs(e)...)
	}
	if len(used) == 0 {
		return checkTimeout(n) // callbacks may look at the arguments of a tool that does not
	}
	return append(checkTimeout(n), c.Tool.checkUnusedParams(n, used)...)
}

// sendsArgs says that the request takes every argument along.
func (c *httpConfig) sendsArgs() bool {
	return c.Body == nil && slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch}, c.Method)
}

// allArgs stands for arguments that are used as a whole.
const allArgs = "*"

// usedArgs are the arguments that the texts of the request name.
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

// checkUnusedParams warns of parameters that a model has to fill in and that nothing
// uses. Where a person approves calls, they may be for the person to read.
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
			ds = append(ds, e.Key.Warnf("unused-param", "nothing in tool %s uses the parameter %s", c.Name.Value, e.Key.Value).
				WithHint("use {args.%s} or args.%[1]s, or leave the parameter out", e.Key.Value))
		}
	}
	return ds
}

// isUndeclared says that a name is none of the parameters: all are used, or the name
// is the problem.
func (c *toolConfig) isUndeclared(name string) bool {
	_, ok := asMap(c.Params.JSON()["properties"])[name]
	return !ok
}

// checkTimeout warns of a timeout that is written and is no limit.
func checkTimeout(n *spec.Node) spec.Diagnostics {
	at := n.Get("timeout")
	var d spec.Duration
	if at.IsNull() || d.DecodeSpec(at).HasErrors() || d > 0 {
		return nil
	}
	return spec.Diagnostics{at.Warnf("timeout", "timeout %s is no limit: a call may then take for ever", at.Value).
		WithHint("write how long a call may take, such as 10s")}
}
