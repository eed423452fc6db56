package main

import (
	"context"
	"fmt"

	"agenthost"
)

// toolKinds lists our tool kinds.
func toolKinds() []agenthost.ToolKind {
	return []agenthost.ToolKind{
		agenthost.NewKind("price_list", "Finds prices in a list.", newPriceList),
	}
}

// priceListConfig is a price list's YAML.
type priceListConfig struct {
	Name   agenthost.Text     `yaml:"name" required:"true" doc:"The name that the model calls."`
	Prices map[string]float64 `yaml:"prices" required:"true" doc:"The price of each item."`
}

// Check reports problems with the values, at their positions.
func (c *priceListConfig) Check(n *agenthost.Node) agenthost.Diagnostics {
	var ds agenthost.Diagnostics
	for item, price := range c.Prices {
		if price < 0 {
			ds = append(ds, n.Get("prices").Get(item).Errorf("price", "the price of %s must be at least 0, got %g", item, price))
		}
	}
	return ds
}

func newPriceList(_ context.Context, _ agenthost.ToolEnv, c *priceListConfig) (agenthost.ToolSet, error) {
	type query struct {
		Item string `json:"item" doc:"The item."`
	}
	find := func(_ context.Context, _ *agenthost.ToolCall, q query) (float64, error) {
		price, ok := c.Prices[q.Item]
		if !ok {
			return 0, fmt.Errorf("unknown item %q", q.Item)
		}
		return price, nil
	}
	t, err := agenthost.NewTool(c.Name.Value, "The price of an item.", find)
	if err != nil {
		return nil, agenthost.Diagnostics{c.Name.Errorf(0, "tool", "%s", err)}
	}
	return agenthost.OneTool(t), nil
}
