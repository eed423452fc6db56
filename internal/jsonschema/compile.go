// Package jsonschema compiles JSON Schemas from apps, servers and documents, and validates values
// with them. It is the only package that uses the JSON Schema library, because a schema is a
// program that its author did not have to pay for:
//
//   - 40 allOf levels with two references to the level below are 2^40 schemas to the library.
//     Here a schema that several others name meets a value once: the result is kept.
//   - Patterns, name lists and value lists cost more the larger the value is. Each
//     validation has a step budget, and ends with its caller's context.
//   - The first problems are reported, not all of them.
//
// The library compiles a schema, after the checks in this file have bounded its work; validate.go
// replaces its validation.
package jsonschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"agenthost/internal/number"
)

// The bounds for one schema.
const (
	// MaxParts limits its objects and lists: compiling each takes about 20 µs and 20 KiB.
	MaxParts = 2000
	// maxDepth limits their nesting; the cost of compiling them grows with its square.
	maxDepth = 100
	// maxReferred limits the objects and lists in the targets of its references. The library
	// compiles them again if their place is not one for a schema.
	maxReferred = 10 * MaxParts
	// maxPatternSize limits the instructions in its regular expressions.
	maxPatternSize = 20_000
	// maxDigits limits the digits in its numbers, and in those that it is compared with.
	maxDigits = 1000
)

// A Schema is a compiled schema. It is safe for concurrent use.
type Schema struct {
	root *jsonschema.Schema
	// details has what validation needs to know about a schema besides its keywords.
	details map[*jsonschema.Schema]*detail
}

// A detail is what validation needs to know about one schema.
type detail struct {
	// isShared is set if several schemas name it, so that it could meet a value again.
	isShared bool
	// patterns are the patternProperties, sorted by their source.
	patterns []propertyPattern
	// values are the keys of enum's values.
	values map[string]bool
	// resource is its document's root, if the schema has dynamic references.
	resource *resource
}

type propertyPattern struct {
	*pattern
	schema *jsonschema.Schema
}

// A resource is a document, or a part of one with an $id.
type resource struct {
	isRecursive bool
	root        *jsonschema.Schema
	anchors     map[string]*jsonschema.Schema
}

// CountParts counts a schema's objects and lists.
func CountParts(v any) int {
	n := 0
	switch v := v.(type) {
	case map[string]any:
		n = 1
		for _, inner := range v {
			n += CountParts(inner)
		}
	case []any:
		n = 1
		for _, inner := range v {
			n += CountParts(inner)
		}
	}
	return n
}

// Compile compiles a schema from [Normalize]. References to other documents are rejected.
func Compile(schema map[string]any) (*Schema, error) {
	root, err := compileSchema(schema)
	if err != nil {
		return nil, err
	}
	s := &Schema{root: root, details: map[*jsonschema.Schema]*detail{}}
	all := findSchemas(root)
	named := map[*jsonschema.Schema]int{root: 1}
	for one := range all {
		for _, inner := range listSubschemas(one) {
			named[inner]++
		}
	}
	for one := range all {
		d := &detail{isShared: named[one] > 1}
		for p, inner := range one.PatternProperties {
			if p, ok := p.(*pattern); ok {
				d.patterns = append(d.patterns, propertyPattern{p, inner})
			}
		}
		slices.SortFunc(d.patterns, func(a, b propertyPattern) int { return strings.Compare(a.String(), b.String()) })
		if one.Enum != nil {
			d.values = make(map[string]bool, len(one.Enum.Values))
			for _, v := range one.Enum.Values {
				d.values[keyOf(v)] = true
			}
		}
		s.details[one] = d
	}
	s.addResources(all)
	return s, nil
}

// compileSchema lets the library compile a schema.
func compileSchema(schema map[string]any) (*jsonschema.Schema, error) {
	if err := checkBounds(schema); err != nil {
		return nil, err
	}
	const at = "params:///schema"
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	patterns := patternCompiler{known: map[string]jsonschema.Regexp{}}
	c.UseRegexpEngine(patterns.compilePattern)
	if err := c.AddResource(at, schema); err != nil {
		return nil, err
	}
	s, err := c.Compile(at)
	if err == nil {
		relaxSchema(s)
		return s, nil
	}
	var bad *jsonschema.SchemaValidationError
	var invalid *jsonschema.ValidationError
	if errors.As(err, &bad) && errors.As(bad.Err, &invalid) {
		return nil, &invalidSchemaError{invalid}
	}
	return nil, err
}

// checkBounds returns an error for a schema that costs the library too much.
func checkBounds(schema map[string]any) error {
	if n := CountParts(schema); n > MaxParts {
		return fmt.Errorf("the schema has %d objects and lists, which exceeds the limit of %d", n, MaxParts)
	}
	targets := map[string]bool{}
	if err := checkPart(schema, 1, targets); err != nil {
		return err
	}
	referred := 0
	for target := range targets {
		if referred += countTarget(schema, target); referred > maxReferred {
			return fmt.Errorf("the references of the schema name more than %d objects and lists", maxReferred)
		}
	}
	return nil
}

// checkPart checks a part's depth and numbers, and collects the reference targets.
func checkPart(v any, depth int, targets map[string]bool) error {
	if depth > maxDepth {
		return fmt.Errorf("the schema is nested deeper than the limit of %d", maxDepth)
	}
	switch v := v.(type) {
	case json.Number:
		if !isComputable(v) {
			return fmt.Errorf("the number %.60s has more than %d digits, or an exponent of more than %d", string(v), maxDigits, number.MaxExponent)
		}
	case map[string]any:
		for key, inner := range v {
			if target, ok := inner.(string); ok && (key == "$ref" || key == "$dynamicRef" || key == "$recursiveRef") {
				targets[target] = true
			}
			if err := checkPart(inner, depth+1, targets); err != nil {
				return err
			}
		}
	case []any:
		for _, inner := range v {
			if err := checkPart(inner, depth+1, targets); err != nil {
				return err
			}
		}
	}
	return nil
}

// countTarget counts the parts that the library may compile again for a reference. Anchor targets,
// and the drafts that it has, are compiled once.
func countTarget(schema map[string]any, target string) int {
	base, place, _ := strings.Cut(target, "#")
	if place != "" && !strings.HasPrefix(place, "/") || strings.HasPrefix(base, "http://json-schema.org/") || strings.HasPrefix(base, "https://json-schema.org/") {
		return 0
	}
	var at any = schema
	for _, step := range strings.Split(strings.TrimPrefix(place, "/"), "/")[:strings.Count(place, "/")] {
		switch v := at.(type) {
		case map[string]any:
			at = v[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(v) {
				return CountParts(schema)
			}
			at = v[i]
		default:
			return CountParts(schema) // a place in a part with an $id, or none
		}
	}
	return CountParts(at)
}

// addResources finds a schema's documents if it has dynamic references, which depend on the
// documents that validation came through.
func (s *Schema) addResources(all map[*jsonschema.Schema]bool) {
	isDynamic := false
	for one := range all {
		isDynamic = isDynamic || one.DynamicRef != nil || one.RecursiveRef != nil
	}
	if !isDynamic {
		return
	}
	roots := map[string]*resource{}
	for one := range all {
		if base, pointer, _ := strings.Cut(one.Location, "#"); pointer == "" || one.ID != "" {
			roots[base+"#"+pointer] = &resource{isRecursive: one.RecursiveAnchor, root: one, anchors: map[string]*jsonschema.Schema{}}
		}
	}
	for one := range all {
		base, pointer, _ := strings.Cut(one.Location, "#")
		for pointer != "" && roots[base+"#"+pointer] == nil {
			pointer = pointer[:max(0, strings.LastIndexByte(pointer, '/'))]
		}
		r := roots[base+"#"+pointer]
		if r == nil {
			continue
		}
		s.details[one].resource = r
		if one.DynamicAnchor != "" {
			r.anchors[one.DynamicAnchor] = one
		}
	}
}

// A noLoader prevents schemas from reading files and the network.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("reference to %s: references must stay within the schema", url)
}

// A patternCompiler compiles one schema's regular expressions.
type patternCompiler struct {
	// known are those by their source, and size is their total size.
	known map[string]jsonschema.Regexp
	size  int
}

// A pattern is a regular expression; matching takes its size times the string's.
type pattern struct {
	*regexp.Regexp
	size int
}

// compilePattern is the regular expression engine. An expression that only ECMAScript has becomes
// an unknownPattern, which relaxSchema removes.
func (c *patternCompiler) compilePattern(src string) (jsonschema.Regexp, error) {
	if c.known[src] == nil {
		parsed, err := syntax.Parse(src, syntax.Perl)
		if err != nil {
			c.known[src] = unknownPattern(src)
			return unknownPattern(src), nil
		}
		size := countInstructions(parsed)
		if c.size += size; c.size > maxPatternSize {
			return nil, fmt.Errorf("the patterns of the schema have more than %d instructions", maxPatternSize)
		}
		compiled, err := regexp.Compile(src)
		if err != nil {
			return nil, err
		}
		c.known[src] = &pattern{compiled, size}
	}
	return c.known[src], nil
}

// countInstructions estimates a compiled expression's size, in which repetitions are written out.
func countInstructions(re *syntax.Regexp) int {
	n := 1
	switch re.Op {
	case syntax.OpLiteral:
		n = len(re.Rune)
	case syntax.OpCharClass:
		n += len(re.Rune) / 8
	}
	for _, sub := range re.Sub {
		n += countInstructions(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return n
}

// isComputable reports whether a number may be written out and divided.
func isComputable(n json.Number) bool { return len(n) <= maxDigits && number.IsPrintable(n) }

// An invalidSchemaError reports the keywords that make a schema invalid.
type invalidSchemaError struct{ invalid *jsonschema.ValidationError }

// Error lists the keywords.
func (e *invalidSchemaError) Error() string {
	found := problemList{}
	found.addCauses(e.invalid)
	return "invalid JSON Schema: " + strings.Join(found.formatLines("arguments"), "; ")
}

// sortedNames returns an object's names in order.
// Each validation calls it several times, so the slice does not grow.
func sortedNames[T any](object map[string]T) []string {
	if len(object) == 0 {
		return nil
	}
	names := slices.AppendSeq(make([]string, 0, len(object)), maps.Keys(object))
	slices.Sort(names)
	return names
}
