package turn

import (
	"context"
	"fmt"
	"strings"

	"agenthost/pkg/template"
)

// A Part is a part of an expression whose value explains the whole.
type Part struct {
	Text string
	expr *template.Expr
}

// CompileParts returns an expression's parts. Parts that do not compile on their own are left
// out.
func CompileParts(src string, env template.Env) []Part {
	var parts []Part
	for _, text := range template.Parts(src) {
		if x, err := template.Compile(text, env); err == nil {
			parts = append(parts, Part{text, x})
		}
	}
	return parts
}

// EvalParts returns the values for the parts that have one.
func EvalParts(ctx context.Context, parts []Part, vars map[string]any) []Value {
	var values []Value
	for _, part := range parts {
		if v, err := part.expr.Eval(ctx, vars); err == nil {
			values = append(values, Value{part.Text, v})
		}
	}
	return values
}

// A Value is an expression part and its value.
type Value struct {
	Part  string
	Value any
}

// maxShownBytes limits how much of a value is shown.
const maxShownBytes = 300

// String returns the part, an equals sign, and the value as truncated JSON.
func (v Value) String() string {
	return v.Part + " = " + TruncateText(formatValue(v.Value))
}

func formatValue(v any) string {
	if v == nil {
		return "nil"
	}
	if text, ok := v.(string); ok {
		return fmt.Sprintf("%q", text)
	}
	return template.String(v)
}

// TruncateText limits a shown value's length.
func TruncateText(s string) string {
	if len(s) > maxShownBytes {
		return strings.ToValidUTF8(s[:maxShownBytes], "") + "…"
	}
	return s
}
