package provider

import (
	"context"
	"iter"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

// A Price is what a model's tokens cost in US dollars per million.
type Price struct {
	// Input, Cached and Output are the prices for prompt tokens, for those that the service had
	// cached, and for response tokens with thoughts.
	Input, Cached, Output float64
}

// maxPrice is the highest plausible price per million tokens.
const maxPrice = 10_000

// A PriceConfig is a price in YAML.
type PriceConfig struct {
	Input  float64 `yaml:"input" required:"true" doc:"US dollars per million prompt tokens."`
	Output float64 `yaml:"output" required:"true" doc:"US dollars per million response tokens, including thoughts."`
	Cached float64 `yaml:"cached" doc:"US dollars per million cached prompt tokens. Default: the input price."`

	cachedSet bool
}

// DecodeSpec decodes and checks the prices.
func (c *PriceConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	type mapping PriceConfig
	ds := spec.Decode(n, (*mapping)(c))
	if ds.HasErrors() {
		return ds
	}
	c.cachedSet = n.Get("cached") != nil
	for key, v := range map[string]float64{"input": c.Input, "output": c.Output, "cached": c.Cached} {
		if v < 0 || v > maxPrice {
			ds = append(ds, n.Get(key).Errorf("value", "%s must be 0 to %d US dollars per million tokens", key, maxPrice))
		}
	}
	ds.Sort()
	return ds
}

// SchemaSpec describes the prices.
func (*PriceConfig) SchemaSpec() map[string]any {
	price := func(doc string) map[string]any {
		return map[string]any{"type": []any{"number", "string"}, "description": doc}
	}
	return map[string]any{
		"type": "object", "additionalProperties": false, "required": []string{"input", "output"},
		"properties": map[string]any{
			"input":  price("US dollars per million prompt tokens."),
			"output": price("US dollars per million response tokens, including thoughts."),
			"cached": price("US dollars per million cached prompt tokens. Default: the input price."),
		},
	}
}

// priceOrNil returns the price; nil has none.
func (c *PriceConfig) priceOrNil() *Price {
	if c == nil {
		return nil
	}
	p := &Price{Input: c.Input, Output: c.Output, Cached: c.Cached}
	if !c.cachedSet {
		p.Cached = p.Input
	}
	return p
}

// A PricedConfig is the config for a model that may have a price; nil means that it has none.
type PricedConfig interface{ ModelPrice() *Price }

// CostOf returns what tokens cost in US dollars.
func (p *Price) CostOf(u *genai.GenerateContentResponseUsageMetadata) float64 {
	input, cached, output := model.CountTokens(u)
	return (float64(input-cached)*p.Input + float64(cached)*p.Cached + float64(output)*p.Output) / 1e6
}

// WithPrice returns a model whose complete responses have their tokens and cost as
// custom metadata; see [model.CostOf]. A nil price returns llm.
func WithPrice(llm model.LLM, p *Price) model.LLM {
	if p == nil {
		return llm
	}
	return &pricedModel{llm, *p}
}

type pricedModel struct {
	model.LLM
	price Price
}

var (
	_ model.SchemaMixer   = (*pricedModel)(nil)
	_ model.ContentCacher = (*pricedModel)(nil)
	_ model.CodeRunner    = (*pricedModel)(nil)
)

// MixesToolsAndSchema reports the model's capability.
func (m *pricedModel) MixesToolsAndSchema() bool { return model.CanMixSchema(m.LLM) }

// CachesContents reports the model's capability; see [model.CanCache].
func (m *pricedModel) CachesContents() bool { return model.CanCache(m.LLM) }

// RunsCode reports the model's capability; see [model.RunsCode].
func (m *pricedModel) RunsCode() bool { return model.RunsCode(m.LLM) }

// Generate calls the model once; see [model.LLM].
func (m *pricedModel) Generate(ctx context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		m.LLM.Generate(ctx, req)(func(resp *model.Response, err error) bool {
			if err == nil && !resp.Partial && resp.UsageMetadata != nil {
				resp = withMetadata(resp, model.CostKey, m.price.describeCost(resp.UsageMetadata))
			}
			return yield(resp, err)
		})
	}
}

// describeCost returns the value for [model.CostKey].
func (p *Price) describeCost(u *genai.GenerateContentResponseUsageMetadata) map[string]any {
	input, cached, output := model.CountTokens(u)
	return map[string]any{"usd": p.CostOf(u), "input_tokens": input, "cached_tokens": cached, "output_tokens": output}
}

// Live returns the model's live conversations, with the cost of each answer; see
// [model.LiveProvider].
func (m *pricedModel) Live() model.LiveLLM {
	inner := model.LiveOf(m.LLM)
	if inner == nil {
		return nil
	}
	return &pricedLive{inner, m.price}
}

type pricedLive struct {
	model.LiveLLM
	price Price
}

// ConnectLive opens a connection; see [model.LiveLLM].
func (m *pricedLive) ConnectLive(ctx context.Context, setup *model.LiveSetup) (model.LiveConn, error) {
	conn, err := m.LiveLLM.ConnectLive(ctx, setup)
	if err != nil {
		return nil, err
	}
	return &pricedConn{conn, m.price}, nil
}

type pricedConn struct {
	model.LiveConn
	price Price
}

// Receive returns the next message; see [model.LiveConn].
func (c *pricedConn) Receive(ctx context.Context) (*model.LiveMessage, error) {
	m, err := c.LiveConn.Receive(ctx)
	if err == nil && m.Usage != nil {
		m.CustomMetadata = map[string]any{model.CostKey: c.price.describeCost(m.Usage)}
	}
	return m, err
}
