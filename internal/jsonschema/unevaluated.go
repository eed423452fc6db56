package jsonschema

import (
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// checkUnevaluated checks unevaluatedProperties and unevaluatedItems: the parts of a value that no
// keyword looks at, neither in the schema nor in the other schemas that the value matches.
func (f *frame) checkUnevaluated() bool {
	valid := true
	if object, ok := f.value.(map[string]any); ok && f.UnevaluatedProperties != nil {
		seen := &evaluatedParts{names: map[string]bool{}, begun: map[meeting]bool{}}
		f.collectEvaluated(seen, true)
		for name, v := range f.orderedItems(object) {
			if !f.chargeSteps(1) {
				return false
			}
			if !seen.all && !seen.names[name] {
				valid = f.matchesAt(f.UnevaluatedProperties, v, name) && valid
			}
		}
	}
	if list, ok := f.value.([]any); ok && f.UnevaluatedItems != nil {
		seen := &evaluatedParts{items: map[int]bool{}, begun: map[meeting]bool{}}
		f.collectEvaluated(seen, true)
		for i, v := range list {
			if !f.chargeSteps(1) {
				return false
			}
			if !seen.all && i >= seen.first && !seen.items[i] {
				valid = f.matchesAt(f.UnevaluatedItems, v, strconv.Itoa(i)) && valid
			}
		}
	}
	return valid
}

// evaluatedParts are the parts of a value that keywords check.
type evaluatedParts struct {
	all   bool
	names map[string]bool
	// first is how many items at the beginning keywords check.
	first int
	items map[int]bool
	begun map[meeting]bool
}

// collectEvaluated collects what a schema that the value matches checks. isRoot is set for the
// schema whose unevaluated parts are wanted.
func (f *frame) collectEvaluated(seen *evaluatedParts, isRoot bool) {
	if seen.all || !f.chargeSteps(1) {
		return
	}
	switch v := f.value.(type) {
	case map[string]any:
		f.collectNames(seen, v, isRoot)
	case []any:
		f.collectItems(seen, v, isRoot)
	}
	for _, s := range f.listMatching() {
		d := f.schema.details[s]
		at := f.scope
		if d.resource != nil {
			at = at.enterResource(d.resource)
		}
		if key := (meeting{schema: s, scope: at}); !seen.begun[key] {
			seen.begun[key] = true
			inner := &frame{Schema: s, evaluation: f.evaluation, detail: d, scope: at, value: f.value}
			inner.collectEvaluated(seen, false)
		}
	}
}

func (f *frame) collectNames(seen *evaluatedParts, object map[string]any, isRoot bool) {
	if f.AdditionalProperties != nil || f.UnevaluatedProperties != nil && !isRoot {
		seen.all = true
		return
	}
	if f.Properties == nil && f.patterns == nil {
		return
	}
	for name := range object {
		if _, ok := f.Properties[name]; ok || !f.chargeSteps(1) {
			seen.names[name] = true
		}
		for _, p := range f.patterns {
			if !seen.names[name] && f.matchPattern(p.pattern, name) {
				seen.names[name] = true
			}
		}
	}
}

func (f *frame) collectItems(seen *evaluatedParts, list []any, isRoot bool) {
	first := len(f.PrefixItems)
	isAll := f.Items2020 != nil || f.AdditionalItems != nil || f.UnevaluatedItems != nil && !isRoot
	switch items := f.Items.(type) {
	case *jsonschema.Schema:
		isAll = true
	case []*jsonschema.Schema:
		first = len(items)
	}
	if isAll {
		seen.all = true
		return
	}
	seen.first = max(seen.first, first)
	if f.Contains != nil && f.DraftVersion >= 2020 {
		for i, v := range list {
			if f.isValid(f.Contains, f.scope, v) {
				seen.items[i] = true
			}
		}
	}
}

// listMatching lists the schemas that this one refers to and the value matches.
func (f *frame) listMatching() []*jsonschema.Schema {
	var list []*jsonschema.Schema
	add := func(branches ...*jsonschema.Schema) {
		for _, s := range branches {
			if s != nil && f.isValid(s, f.scope, f.value) {
				list = append(list, s)
			}
		}
	}
	add(f.Ref)
	add(f.findRecursive(), f.findDynamic())
	add(f.AllOf...)
	add(f.AnyOf...)
	add(f.OneOf...)
	if f.If != nil {
		if f.isValid(f.If, f.scope, f.value) {
			add(f.If, f.Then)
		} else {
			add(f.Else)
		}
	}
	if object, ok := f.value.(map[string]any); ok {
		for name, s := range f.DependentSchemas {
			if _, ok := object[name]; ok {
				add(s)
			}
		}
		for name, needed := range f.Dependencies {
			if s, isSchema := needed.(*jsonschema.Schema); isSchema {
				if _, ok := object[name]; ok {
					add(s)
				}
			}
		}
	}
	return list
}
