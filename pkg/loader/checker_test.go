package loader

import (
	"context"
	"errors"
	"strings"
	"testing"

	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// pricesConfig is checked as in docs/embedding.md: its fields may be missing, and its nested parts
// decode themselves.
type pricesConfig struct {
	Name   spec.Text          `yaml:"name" required:"true" doc:"The name."`
	Prices map[string]float64 `yaml:"prices" doc:"The prices."`
	Sides  int                `yaml:"sides" doc:"The sides."`
	Period pricesPeriod       `yaml:"period" doc:"The period."`
}

func (c *pricesConfig) Check(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	if c.Prices["tea"] <= 0 {
		ds = append(ds, n.Get("prices").Get("tea").Errorf("price", "the price of tea must be more than 0"))
	}
	if c.Sides < 2 {
		ds = append(ds, n.Get("sides").Errorf("sides", "at least 2 sides, not %d", c.Sides))
	}
	return ds
}

// pricesPeriod reports a field that is missing.
type pricesPeriod struct {
	From string `yaml:"from" doc:"The start."`
}

func (p *pricesPeriod) DecodeSpec(n *spec.Node) spec.Diagnostics {
	type fields pricesPeriod
	ds := spec.Decode(n, (*fields)(p))
	if p.From == "" {
		ds = append(ds, n.Get("from").Warnf("period", "no start"))
	}
	return ds
}

// A Check method's problem at a missing field is reported at the kind's settings. Problems with
// values that could not be decoded are left out.
func TestCheckMethod(t *testing.T) {
	s := newWatchEnv(t)
	s.writeFile("x/app.yaml", "models: {m: {provider: scripted, script: s.yaml}}\n")
	s.writeFile("x/s.yaml", "- text: hi\n")
	prices := spec.NewKind("prices", "Prices.", func(context.Context, tool.Env, *pricesConfig) (tool.Set, error) {
		return nil, errors.New("not built")
	})
	kinds := Kinds{Models: provider.Kinds(), Agents: AgentKinds(), Tools: spec.Kinds[tool.Env, tool.Set]{prices}}
	for settings, want := range map[string][]string{
		"{name: p, sides: 2}":                      {"4:17: the price of tea must be more than 0 [price]"},
		"{name: p, prices: {}}":                    {"4:17: the price of tea must be more than 0 [price]", "4:17: at least 2 sides, not 0 [sides]"},
		"{name: p, prices: {tea: -1}}":             {"4:17: at least 2 sides, not 0 [sides]", "4:41: the price of tea must be more than 0 [price]"},
		"{name: p, sides: six}":                    {"4:34: expected an integer, got a string [type]"},
		"{name: p, sdies: 6}":                      {`4:27: unknown field "sdies" [unknown-field]`},
		"{sides: 1}":                               {"4:17: the price of tea must be more than 0 [price]", `4:17: missing field "name" [required]`, "4:25: at least 2 sides, not 1 [sides]"},
		"{name: p, prices: {tea: -1}, sides: six}": {"4:41: the price of tea must be more than 0 [price]", "4:53: expected an integer, got a string [type]"},
		"[p]":                              {"4:17: expected a mapping, got a list [type]"},
		"{name: p, sides: x, period: {}}":  {"4:34: expected an integer, got a string [type]", "4:45: warning: no start [period]"},
		"{name: p, prices: x, sides: six}": {"4:35: expected a mapping, got a string [type]", "4:45: expected an integer, got a string [type]"},
	} {
		s.writeFile("x/root_agent.yaml", "name: x\nmodel: m\ninstruction: y\ntools: [prices: "+settings+"]\n")
		var got []string
		for _, d := range New(kinds, nil).Check(t.Context(), s.path("x")) {
			_, text, _ := strings.Cut(d.String(), "root_agent.yaml:")
			got = append(got, text)
			if d.Source == "" {
				t.Errorf("%s: no source line of %s", settings, d)
			}
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s: %s\nwant %s", settings, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}
