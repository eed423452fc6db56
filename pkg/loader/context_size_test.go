package loader_test

import (
	"os"
	"path/filepath"
	"testing"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/provider"
)

// An agent's context size is that of its own or inherited model, from the settings or else the price list. A route
// has the smallest of its models', and none if one is unknown.
func TestContextSize(t *testing.T) {
	list := filepath.Join(t.TempDir(), "prices.json")
	if err := os.WriteFile(list, []byte(`{"openai": {"models": {"gpt-x": {"limit": {"context": 4000}}}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	prices, err := provider.ReadPriceList(list)
	if err != nil {
		t.Fatal(err)
	}
	opts := &testenv.Options{Loader: &loader.Options{Prices: prices, Env: func(name string) (string, bool) { return "key", name == "OPENAI_API_KEY" }}}
	app := testenv.New(t, opts).Load(t, testenv.Files(t, "shop", map[string][]byte{
		"s.yaml": []byte("- text: Hi.\n"),
		"app.yaml": []byte(`models:
  small: {provider: scripted, script: s.yaml, context: {input: 1000}}
  large: {provider: scripted, script: s.yaml, context: {input: 2000, output: 100}}
  unknown: {provider: scripted, script: s.yaml, context: {output: 100}}
  routed: {provider: route, routes: [{when: state.plan == "pro", model: large}, {model: small}]}
  partial: {provider: route, routes: [{when: state.plan == "pro", model: large}, {model: unknown}]}
`),
		"root_agent.yaml": []byte(`name: desk
model: large
instruction: Help.
sub_agents:
  - {name: heir, instruction: Help.}
  - {name: listed, model: openai/gpt-x, instruction: Help.}
  - {name: routed, model: routed, instruction: Help.}
  - {name: partial, model: partial, instruction: Help.}
  - {name: unknown, model: unknown, instruction: Help.}
`),
	}))
	for agent, want := range map[string]int{"desk": 2000, "heir": 2000, "listed": 4000, "routed": 1000, "partial": 0, "unknown": 0, "none": 0} {
		if got := app.ContextSize(agent); got != want {
			t.Errorf("context size of %s = %d, want %d", agent, got, want)
		}
	}
}
