package main

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/agentconfig"
	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/provider"
	"agenthost/pkg/store/storeurl"
)

// Package tests use the program's kinds: testenv lists the same ones in the same order.
func TestKindsOfTests(t *testing.T) {
	if diff := cmp.Diff(nameKinds(t, listKinds()), nameKinds(t, testenv.Kinds())); diff != "" {
		t.Errorf("kinds (-listKinds of cmd/agenthost +Kinds of internal/testenv/env.go; then run make generate):\n%s", diff)
	}
	if diff := cmp.Diff(nameSchemes(storeSchemes()), nameSchemes(testenv.Schemes())); diff != "" {
		t.Errorf("schemes (-storeSchemes +testenv.Schemes):\n%s", diff)
	}
}

// nameKinds returns the names in each list, and which other fields are set.
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

// The package table in internal/agentconfig has each of the program's kinds, so that a program with
// fewer kinds reports where to find them.
func TestKindsHaveSources(t *testing.T) {
	kinds := nameKinds(t, listKinds())
	for _, list := range []string{agentconfig.ModelList, agentconfig.ToolList, agentconfig.BuiltinList, agentconfig.ExecutorList} {
		names := agentconfig.SourceNames(list)
		for _, name := range kinds[list] {
			if !slices.Contains(names, name) {
				t.Errorf("%s: internal/agentconfig lacks %s", list, name)
			}
		}
		for _, name := range names {
			if !slices.Contains(kinds[list], name) && name != "ContainerCodeExecutor" { // ADK's name for container
				t.Errorf("%s: the program lacks %s of internal/agentconfig", list, name)
			}
		}
	}
	for _, model := range []string{"gemini-2.5-flash", "gpt-5", "o3", "claude-opus-4-1", "llama"} {
		known := ""
		for _, kind := range listKinds().Models {
			if c, ok := kind.NewConfig().(provider.NameConfig); ok && known == "" && c.RecognizesName(model) {
				known = kind.Name
			}
		}
		if got, _ := agentconfig.FindProvider(model); got != known {
			t.Errorf("provider of %s = %q, want %q", model, got, known)
		}
	}
}
