package jsonschema

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxRepairs bounds how often a schema is compiled without its invalid keywords.
const maxRepairs = 8

// Repair returns a service's schema without the keywords whose values are invalid, and lists these.
// A member that is null counts as absent. The schema itself is not modified; it is returned as it
// is if it is valid, or if it cannot be repaired.
func Repair(schema map[string]any) (repaired map[string]any, ignored []string) {
	if CountParts(schema) > MaxParts {
		return schema, nil
	}
	repaired, ignored = dropNullMembers(schema, "")
	for range maxRepairs {
		normal := Normalize(repaired)
		_, err := compileSchema(normal)
		places := invalidKeywords(err)
		if len(places) == 0 {
			break
		}
		for _, place := range places {
			if deleteKeyword(normal, place) {
				ignored = append(ignored, strings.Join(place, "."))
			}
		}
		repaired = normal
	}
	if len(ignored) == 0 {
		return schema, nil
	}
	slices.Sort(ignored)
	return repaired, slices.Compact(ignored)
}

// dropNullMembers returns a schema without members that are null, as servers in Go write empty
// maps and lists. Null stays where it is a value.
func dropNullMembers(schema map[string]any, place string) (map[string]any, []string) {
	kept := maps.Clone(schema)
	var dropped []string
	for key, v := range schema {
		switch v := v.(type) {
		case nil:
			if key != "default" && key != "const" && key != "example" {
				delete(kept, key)
				dropped = append(dropped, place+key)
			}
		case map[string]any:
			if key != "default" && key != "const" && key != "example" {
				inner, more := dropNullMembers(v, place+key+".")
				kept[key], dropped = inner, append(dropped, more...)
			}
		}
	}
	return kept, dropped
}

// invalidKeywords returns where keywords make a schema invalid, or nil if the error is another.
func invalidKeywords(err error) [][]string {
	var bad *invalidSchemaError
	if !errors.As(err, &bad) {
		return nil
	}
	var places [][]string
	var collect func(e *jsonschema.ValidationError)
	collect = func(e *jsonschema.ValidationError) {
		for _, cause := range e.Causes {
			collect(cause)
		}
		if len(e.Causes) == 0 && len(e.InstanceLocation) > 0 {
			places = append(places, e.InstanceLocation)
		}
	}
	collect(bad.invalid)
	return places
}

// deleteKeyword deletes the member at a place, or the list that it belongs to.
func deleteKeyword(schema map[string]any, place []string) bool {
	at, last := schema, len(place)-1
	for i, key := range place {
		next, ok := at[key].(map[string]any)
		if i == last || !ok {
			_, found := at[key]
			delete(at, key)
			return found
		}
		at = next
	}
	return false
}
