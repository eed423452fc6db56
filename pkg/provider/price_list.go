package provider

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"agenthost/internal/limit"
)

// A PriceList has model prices and context limits in the form of models.dev's api.json: {"openai":
// {"models": {"gpt-4o": {"cost": {"input": 2.5, "output": 10}, "limit": {"context": 128000,
// "output": 16384}}}}}, optionally below "providers". Other fields are ignored. It is immutable.
type PriceList struct {
	byProvider map[string]listedProvider
}

type listedProvider struct {
	Models map[string]listedModel `json:"models"`
}

type listedModel struct {
	Cost *struct {
		Input     float64  `json:"input"`
		Output    float64  `json:"output"`
		CacheRead *float64 `json:"cache_read"`
	} `json:"cost"`
	// Limit has the sizes in tokens; Input is Context's if the model has no own.
	Limit struct {
		Context int `json:"context"`
		Input   int `json:"input"`
		Output  int `json:"output"`
	} `json:"limit"`
}

// ReadPriceList reads a price list. Errors name the file and, for the syntax, the line
// and column.
func ReadPriceList(path string) (*PriceList, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := limit.PriceList.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	l, err := parsePriceList(text)
	if err != nil {
		return nil, fmt.Errorf("%s%w", path, err)
	}
	return l, nil
}

// parsePriceList parses a list. Errors begin with the place: ":3:7: " or ": ".
func parsePriceList(text []byte) (*PriceList, error) {
	raw := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, placeJSONError(text, err)
	}
	if inner, ok := raw["providers"]; ok && len(raw) == 1 {
		raw = map[string]json.RawMessage{}
		if err := json.Unmarshal(inner, &raw); err != nil {
			return nil, fmt.Errorf(": providers must be a mapping")
		}
	}
	l := &PriceList{map[string]listedProvider{}}
	for name, value := range raw {
		var p listedProvider
		if err := json.Unmarshal(value, &p); err != nil {
			return nil, fmt.Errorf(": prices of %s: %w", name, err)
		}
		for id, m := range p.Models {
			if c := m.Cost; c != nil && (c.Input < 0 || c.Output < 0 || c.CacheRead != nil && *c.CacheRead < 0) {
				return nil, fmt.Errorf(": price of %s/%s must not be negative", name, id)
			}
			if m.Limit.Context < 0 || m.Limit.Input < 0 || m.Limit.Output < 0 {
				return nil, fmt.Errorf(": limit of %s/%s must not be negative", name, id)
			}
		}
		l.byProvider[name] = p
	}
	return l, nil
}

func placeJSONError(text []byte, err error) error {
	syntax, ok := errors.AsType[*json.SyntaxError](err)
	if !ok {
		return fmt.Errorf(": price list must be a mapping of providers: %w", err)
	}
	before := text[:min(int(syntax.Offset), len(text))]
	line := bytes.Count(before, []byte("\n")) + 1
	return fmt.Errorf(":%d:%d: %w", line, len(before)-bytes.LastIndexByte(before, '\n')-1, err)
}

// listNames are models.dev's provider names that differ from ours.
var listNames = map[string]string{
	"gemini": "google", "vertex_ai": "google-vertex", "together_ai": "togetherai", "fireworks_ai": "fireworks-ai", "bedrock": "amazon-bedrock",
}

// Find returns a model's price, or nil. A nil list has no prices.
func (l *PriceList) Find(provider, name string) *Price {
	m := l.findModel(provider, name)
	if m.Cost == nil {
		return nil
	}
	p := &Price{Input: m.Cost.Input, Cached: m.Cost.Input, Output: m.Cost.Output}
	if m.Cost.CacheRead != nil {
		p.Cached = *m.Cost.CacheRead
	}
	return p
}

// FindContext returns a model's context limits. Those that a list lacks are unknown.
func (l *PriceList) FindContext(provider, name string) ContextLimits {
	m := l.findModel(provider, name)
	return ContextLimits{Input: cmp.Or(m.Limit.Input, m.Limit.Context), Output: m.Limit.Output}
}

// findModel returns a model's entry. It is empty if the list has none.
func (l *PriceList) findModel(provider, name string) listedModel {
	if l == nil {
		return listedModel{}
	}
	if other, ok := listNames[provider]; ok {
		provider = other
	}
	return l.byProvider[provider].Models[strings.TrimPrefix(name, "models/")]
}
