package main

import (
	"context"
	"fmt"

	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// toolKinds lists our kinds of tools.
func toolKinds() spec.Kinds[tool.Env, tool.Set] {
	return spec.Kinds[tool.Env, tool.Set]{
		spec.NewKind("price_list", "Finds prices in a list.", newPriceList),
	}
}

// priceListConfig is the YAML of a price list.
type priceListConfig struct {
	Name   spec.Text          `yaml:"name" required:"true" doc:"The name that the model calls."`
	Prices map[string]float64 `yaml:"prices" required:"true" doc:"The price of each item."`
}

// Check reports problems of the values, at their positions.
func (c *priceListConfig) Check(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	for item, price := range c.Prices {
		if price < 0 {
			ds = append(ds, n.Get("prices").Get(item).Errorf("price", "the price of %s must be at least 0, got %g", item, price))
		}
	}
	return ds
}

func newPriceList(_ context.Context, _ tool.Env, c *priceListConfig) (tool.Set, error) {
	type query struct {
		Item string `json:"item" doc:"The item."`
	}
	find := func(_ context.Context, _ *tool.Call, q query) (float64, error) {
		price, ok := c.Prices[q.Item]
		if !ok {
			return 0, fmt.Errorf("unknown item %q", q.Item)
		}
		return price, nil
	}
	t, err := tool.FromFunc(c.Name.Value, "The price of an item.", find)
	if err != nil {
		return nil, spec.Diagnostics{c.Name.Errorf(0, "tool", "%s", err)}
	}
	return tool.One(t), nil
}
