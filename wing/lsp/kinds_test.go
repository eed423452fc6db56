package lsp_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// echoConfig is the YAML for another program's provider.
type echoConfig struct {
	Provider string    `yaml:"provider" doc:"echo"`
	Prefix   spec.Text `yaml:"prefix" required:"true" doc:"The beginning of each answer."`
}

// priceListConfig is the YAML for another program's tool kind.
type priceListConfig struct {
	Name   spec.Text `yaml:"name" required:"true" doc:"The name that the model calls."`
	Prices spec.Text `yaml:"prices" required:"true" doc:"The file of prices."`
}

// startEditorWithKinds starts a server with one more provider and one more tool kind. A
// language server builds neither.
func startEditorWithKinds(t *testing.T) *editor {
	newEcho := func(context.Context, provider.Env, *echoConfig) (model.LLM, error) {
		return nil, errors.New("an editor runs no model")
	}
	newPriceList := func(context.Context, tool.Env, *priceListConfig) (tool.Set, error) {
		return nil, errors.New("an editor runs no tool")
	}
	kinds := testenv.Kinds()
	kinds.Models = append(kinds.Models, spec.NewKind("echo", "Repeats the user's message.", newEcho))
	kinds.Tools = append(kinds.Tools, spec.NewKind("price_list", "Finds prices in a list.", newPriceList))
	return startEditorWith(t, kinds)
}

// The kinds that a program adds to loader.Kinds complete, with their fields, next to
// agenthost's.
func TestCompletionOfAddedKinds(t *testing.T) {
	e := startEditorWithKinds(t)
	defer e.close()
	for _, tt := range []struct {
		name, file, text string
		want             []string
	}{
		{"providers", "app.yaml", "models: {fast: {provider: ¦}}", []string{"echo", "gemini"}},
		{"fields of the provider", "app.yaml", "models: {fast: {provider: echo, ¦}}", []string{"prefix"}},
		{"kinds of tools", "root_agent.yaml", "name: a\ninstruction: x\ntools:\n- ¦\n", []string{"price_list", "http"}},
		{"fields of the tool", "root_agent.yaml", "name: a\ninstruction: x\ntools:\n  - price_list:\n      name: f\n      ¦\n", []string{"prices"}},
	} {
		got := e.completionLabels(tt.file, tt.text)
		for _, want := range tt.want {
			if !slices.Contains(got, want) {
				t.Errorf("%s: %s is missing from the completions: %v", tt.name, want, got)
			}
		}
		e.notify("textDocument/didClose", map[string]any{"textDocument": map[string]any{"uri": e.uri(tt.file)}})
	}
}

// Hover shows an added kind's doc tags.
func TestHoverOfAddedKinds(t *testing.T) {
	e := startEditorWithKinds(t)
	defer e.close()
	for _, tt := range []struct{ file, text, want string }{
		{"app.yaml", "models:\n  fast:\n    provider: echo\n    pre¦fix: x\n", "The beginning of each answer."},
		{"root_agent.yaml", "name: a\ninstruction: x\ntools:\n  - price_list:\n      name: f\n      pri¦ces: p.csv\n", "The file of prices."},
	} {
		var answer struct{ Contents struct{ Value string } }
		e.call("textDocument/hover", e.openAtCursor(tt.file, tt.text), &answer)
		if !strings.Contains(answer.Contents.Value, tt.want) {
			t.Errorf("hover = %q, want %q", answer.Contents.Value, tt.want)
		}
	}
}

// Diagnostics know an added kind's fields.
func TestDiagnosticsOfAddedKinds(t *testing.T) {
	e := startEditorWithKinds(t)
	defer e.close()
	got := e.openDocument("root_agent.yaml", "name: desk\nmodel: fast\ninstruction: x\ntools:\n  - price_list: {name: f, price: p.csv}\n")
	want := []string{
		"4:26-31 unknown field \"price\"\ndid you mean \"prices\"? [unknown-field]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("diagnostics (-want +got):\n%s", diff)
	}
}
