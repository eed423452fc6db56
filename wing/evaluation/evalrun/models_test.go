package evalrun_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"agenthost/pkg/model"
	"agenthost/wing/evaluation/evalrun"
)

// A capableModel has all capabilities, and answers with a price.
type capableModel struct{ usd float64 }

func (capableModel) Name() string              { return "capable" }
func (capableModel) CachesContents() bool      { return true }
func (capableModel) RunsCode() bool            { return true }
func (capableModel) MixesToolsAndSchema() bool { return true }

func (m capableModel) Generate(context.Context, *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		yield(&model.Response{CustomMetadata: map[string]any{model.CostKey: map[string]any{"usd": m.usd}}}, nil)
	}
}

// TestWrapModelCapabilities expects an agent under evaluation to send the same requests as in
// production: a wrapped model has the original model's capabilities.
func TestWrapModelCapabilities(t *testing.T) {
	meter := &evalrun.CostMeter{}
	for name, wrap := range map[string]func(model.LLM) model.LLM{"WrapModel": evalrun.WrapModel, "CostMeter.WrapModel": meter.WrapModel} {
		if m := wrap(capableModel{}); !model.CanCache(m) || !model.RunsCode(m) || !model.CanMixSchema(m) {
			t.Errorf("%s loses a capability: caching %t, code %t, tools with a schema %t", name, model.CanCache(m), model.RunsCode(m), model.CanMixSchema(m))
		}
		if m := wrap(plainModel{}); model.CanCache(m) || model.RunsCode(m) || model.CanMixSchema(m) {
			t.Errorf("%s invents a capability", name)
		}
	}
}

type plainModel struct{ model.LLM }

// TestCostMeter expects calls to be rejected from the limit on, and one report about it.
func TestCostMeter(t *testing.T) {
	reports := 0
	meter := &evalrun.CostMeter{Limit: 1, OnLimit: func(*evalrun.CostError) { reports++ }}
	llm := meter.WrapModel(capableModel{usd: 0.5})
	for i, want := range []bool{true, true, false, false} {
		var failed error
		for _, err := range llm.Generate(t.Context(), &model.Request{}) {
			failed = err
		}
		limit, isLimit := errors.AsType[*evalrun.CostError](failed)
		if (failed == nil) != want || isLimit && limit.Limit != 1 {
			t.Errorf("call %d = %v, want success %t", i+1, failed, want)
		}
	}
	if meter.Spent() != 1 || reports != 1 {
		t.Errorf("spent %g with %d reports, want 1 with 1", meter.Spent(), reports)
	}
	free := (&evalrun.CostMeter{}).WrapModel(capableModel{usd: 0.5})
	for range 3 {
		for _, err := range free.Generate(t.Context(), &model.Request{}) {
			if err != nil {
				t.Errorf("without a limit: %v", err)
			}
		}
	}
}

// TestCallLimit expects calls beyond the limit to be rejected and not to be counted, and a
// model without a price to be named.
func TestCallLimit(t *testing.T) {
	reports := 0
	meter := &evalrun.CostMeter{CallLimit: 2, OnCallLimit: func(err *evalrun.CallsError) {
		if reports++; err.Error() != "the limit of 2 model calls was reached" {
			t.Error(err)
		}
	}}
	llm := meter.WrapModel(capableModel{usd: 0.5})
	for i, want := range []bool{true, true, false, false} {
		var failed error
		for _, err := range llm.Generate(t.Context(), &model.Request{}) {
			failed = err
		}
		if _, isLimit := errors.AsType[*evalrun.CallsError](failed); (failed == nil) != want || isLimit == want {
			t.Errorf("call %d = %v, want success %t", i+1, failed, want)
		}
	}
	if meter.Calls() != 2 || reports != 2 || meter.Unpriced() != "" {
		t.Errorf("%d calls with %d reports, unpriced %q, want 2 with 2, all priced", meter.Calls(), reports, meter.Unpriced())
	}
}

// A model that evaluations wrap keeps its live conversations, and another gets none.
func TestWrappedModelsKeepLiveConversations(t *testing.T) {
	if live := model.LiveOf(evalrun.WrapModel(liveModel{})); live == nil {
		t.Error("a wrapped model has lost its live conversations")
	}
	if live := model.LiveOf(evalrun.WrapModel(plainModel{})); live != nil {
		t.Errorf("a wrapped model has live conversations: %v", live)
	}
}

type liveModel struct{ plainModel }

func (liveModel) LiveTraits(string) model.LiveTraits { return model.LiveTraits{} }

func (liveModel) ConnectLive(context.Context, *model.LiveSetup) (model.LiveConn, error) {
	return nil, context.Canceled
}
