package main

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/store/storeurl"
)

// The tests of packages use the kinds of the program: testenv lists the same ones in the same
// order.
func TestKindsOfTests(t *testing.T) {
	if diff := cmp.Diff(nameKinds(t, listKinds()), nameKinds(t, testenv.Kinds())); diff != "" {
		t.Errorf("kinds (-listKinds of cmd/agenthost +Kinds of internal/testenv/env.go; then run make generate):\n%s", diff)
	}
	if diff := cmp.Diff(nameSchemes(storeSchemes()), nameSchemes(testenv.Schemes())); diff != "" {
		t.Errorf("schemes (-storeSchemes +testenv.Schemes):\n%s", diff)
	}
}

// nameKinds returns the names of each list, and which of the other fields are set.
func nameKinds(t *testing.T, kinds loader.Kinds) map[string][]string {
	t.Helper()
	names := map[string][]string{}
	all := reflect.ValueOf(kinds)
	for i := range all.NumField() {
		field, list := all.Type().Field(i).Name, all.Field(i)
		if list.Kind() != reflect.Slice {
			names[field] = []string{fmt.Sprint(!list.IsZero())}
			continue
		}
		for k := range list.Len() {
			names[field] = append(names[field], list.Index(k).FieldByName("Name").String())
		}
	}
	return names
}

func nameSchemes(schemes []storeurl.Scheme) [][]string {
	var names [][]string
	for _, s := range schemes {
		names = append(names, s.Names)
	}
	return names
}
