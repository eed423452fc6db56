package jsonschema

import (
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

func (f *frame) checkObject() bool {
	object, ok := f.value.(map[string]any)
	if !ok {
		return true
	}
	valid := true
	if f.MinProperties != nil && len(object) < *f.MinProperties {
		valid = f.reportProblem(&kind.MinProperties{Got: len(object), Want: *f.MinProperties})
	}
	if f.MaxProperties != nil && len(object) > *f.MaxProperties {
		valid = f.reportProblem(&kind.MaxProperties{Got: len(object), Want: *f.MaxProperties})
	}
	if missing := f.findMissing(object, f.Required); missing != nil {
		valid = f.reportProblem(&kind.Required{Missing: missing})
	}
	if !valid && f.report == nil || !f.chargeSteps(len(f.Dependencies)+len(f.DependentSchemas)+len(f.DependentRequired)) {
		return false
	}
	valid = f.checkProperties(object) && valid
	valid = f.checkNames(object) && valid
	return f.checkDependents(object) && valid
}

// findMissing returns the first names that an object lacks, or nil.
func (f *frame) findMissing(object map[string]any, names []string) []string {
	if !f.chargeSteps(len(names)) {
		return names[:0:0]
	}
	var missing []string
	for _, name := range names {
		if _, ok := object[name]; !ok && len(missing) < maxShownNames {
			missing = append(missing, name)
		}
	}
	return missing
}

// checkProperties checks properties, patternProperties and additionalProperties.
func (f *frame) checkProperties(object map[string]any) bool {
	if f.Properties == nil && f.patterns == nil && f.AdditionalProperties == nil {
		return true
	}
	valid := true
	var additional []string
	for name, v := range f.orderedItems(object) {
		if !f.chargeSteps(1) {
			return false
		}
		evaluated := false
		if s, ok := f.Properties[name]; ok {
			evaluated = true
			valid = f.matchesAt(s, v, name) && valid
		}
		for _, p := range f.patterns {
			if f.matchPattern(p.pattern, name) {
				evaluated = true
				valid = f.matchesAt(p.schema, v, name) && valid
			}
		}
		switch more := f.AdditionalProperties.(type) {
		case bool:
			if !evaluated && !more {
				additional = append(additional, name)
			}
		case *jsonschema.Schema:
			valid = (evaluated || f.matchesAt(more, v, name)) && valid
		}
		if (!valid || len(additional) > 0) && f.report == nil {
			return false
		}
	}
	if len(additional) > 0 {
		return f.reportProblem(&kind.AdditionalProperties{Properties: additional[:min(len(additional), maxShownNames)]})
	}
	return valid
}

// orderedItems iterates over an object: in name order if there is a report.
func (f *frame) orderedItems(object map[string]any) func(yield func(string, any) bool) {
	return func(yield func(string, any) bool) {
		if f.report == nil {
			for name, v := range object {
				if !yield(name, v) {
					return
				}
			}
			return
		}
		for _, name := range sortedNames(object) {
			if !yield(name, object[name]) {
				return
			}
		}
	}
}

func (f *frame) checkNames(object map[string]any) bool {
	valid := true
	if f.PropertyNames != nil {
		for name := range f.orderedItems(object) {
			if valid = f.matchesAt(f.PropertyNames, name, "") && valid; !valid && f.report == nil {
				return false
			}
		}
	}
	return valid
}

// checkDependents checks what the presence of a property requires.
func (f *frame) checkDependents(object map[string]any) bool {
	valid := true
	for _, name := range sortedNames(f.Dependencies) {
		if _, ok := object[name]; !ok {
			continue
		}
		switch needed := f.Dependencies[name].(type) {
		case []string:
			if missing := f.findMissing(object, needed); missing != nil {
				valid = f.reportProblem(&kind.Dependency{Prop: name, Missing: missing})
			}
		case *jsonschema.Schema:
			valid = f.matchesSchema(needed) && valid
		}
	}
	for _, name := range sortedNames(f.DependentSchemas) {
		if _, ok := object[name]; ok {
			valid = f.matchesSchema(f.DependentSchemas[name]) && valid
		}
	}
	for _, name := range sortedNames(f.DependentRequired) {
		if _, ok := object[name]; ok {
			if missing := f.findMissing(object, f.DependentRequired[name]); missing != nil {
				valid = f.reportProblem(&kind.DependentRequired{Prop: name, Missing: missing})
			}
		}
	}
	return valid
}

func (f *frame) checkArray() bool {
	list, ok := f.value.([]any)
	if !ok {
		return true
	}
	valid := true
	if f.MinItems != nil && len(list) < *f.MinItems {
		valid = f.reportProblem(&kind.MinItems{Got: len(list), Want: *f.MinItems})
	}
	if f.MaxItems != nil && len(list) > *f.MaxItems {
		valid = f.reportProblem(&kind.MaxItems{Got: len(list), Want: *f.MaxItems})
	}
	if f.UniqueItems && len(list) > 1 {
		if !f.chargeSteps(countSteps(f.value)) {
			return false
		}
		if i, j := findEqual(list); j > 0 {
			valid = f.reportProblem(&kind.UniqueItems{Duplicates: [2]int{i, j}})
		}
	}
	if !valid && f.report == nil {
		return false
	}
	valid = f.checkItems(list) && valid
	return f.checkContains(list) && valid
}

// checkItems checks prefixItems and items, and their older drafts' forms.
func (f *frame) checkItems(list []any) bool {
	first, rest, more := f.PrefixItems, f.Items2020, any(nil)
	switch items := f.Items.(type) {
	case *jsonschema.Schema:
		rest = items
	case []*jsonschema.Schema:
		first = items
		if more = f.AdditionalItems; more != nil {
			rest, _ = more.(*jsonschema.Schema)
		}
	}
	valid := true
	for i, v := range list {
		s := rest
		if i < len(first) {
			s = first[i]
		}
		if s == nil {
			break
		}
		if valid = f.matchesAt(s, v, strconv.Itoa(i)) && valid; !valid && (f.report == nil || f.report.isFull()) {
			return false
		}
	}
	if more == false && len(list) > len(first) {
		return f.reportProblem(&kind.AdditionalItems{Count: len(list) - len(first)})
	}
	return valid
}

func (f *frame) checkContains(list []any) bool {
	if f.Contains == nil {
		return true
	}
	var matched []int
	for i, v := range list {
		if f.isValid(f.Contains, f.scope, v) {
			matched = append(matched, i)
		}
		if f.err != nil {
			return false
		}
	}
	valid := true
	if f.MaxContains != nil && len(matched) > *f.MaxContains {
		valid = f.reportProblem(&kind.MaxContains{Got: matched, Want: *f.MaxContains})
	}
	least := 1
	if f.MinContains != nil {
		least = *f.MinContains
	}
	switch {
	case len(matched) >= least:
		return valid
	case len(matched) == len(list) && f.MinContains == nil:
		return f.reportProblem(&kind.Contains{})
	case len(matched) == len(list):
		return f.reportProblem(&kind.MinContains{Got: matched, Want: least})
	}
	for i, v := range list {
		if f.report == nil || f.report.isFull() {
			break
		}
		f.matchesAt(f.Contains, v, strconv.Itoa(i))
	}
	return false
}
