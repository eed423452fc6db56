package provider

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

// A FallbackConfig is the config for a model that names fallbacks.
type FallbackConfig interface{ Fallbacks() []FallbackRef }

// A FallbackModel is a model in a [Fallback].
type FallbackModel struct {
	Model model.LLM
	// Name names the model in logs and events; empty is the model's own name.
	Name string
	// On lists the earlier models' failures after which this one is tried; nil is rate_limit,
	// overloaded, connection and timeout. See [FallbackRef].
	On []string
	// Cooldown is how long later calls begin with this model once it has answered for an
	// earlier one; 0 lets each call begin with the first model.
	Cooldown time.Duration
}

// defaultFallbackOn lists the failures that no request change can prevent.
var defaultFallbackOn = []string{string(failRateLimit), string(failOverloaded), string(failConnection), string(failTimeout), string(failCredit)}

// A FallbackRef names a fallback in a document: a model's name, or a mapping.
type FallbackRef struct {
	Model    spec.Text     `yaml:"model" required:"true" doc:"The model's name."`
	On       []string      `yaml:"on" enum:"rate_limit|overloaded|connection|timeout|credit|context_window|refusal" doc:"The failures after which it is tried. Default: rate_limit, overloaded, connection, timeout, credit."`
	Cooldown spec.Duration `yaml:"cooldown" doc:"How long later calls begin with this model once it has answered for an earlier one, such as 1m. Default: not at all."`
}

// DecodeSpec accepts both forms.
func (f *FallbackRef) DecodeSpec(n *spec.Node) spec.Diagnostics {
	if n.Kind != spec.Mapping {
		return f.Model.DecodeSpec(n)
	}
	type mapping FallbackRef
	return spec.Decode(n, (*mapping)(f))
}

// SchemaSpec describes both forms.
func (*FallbackRef) SchemaSpec() map[string]any {
	kinds := append(slices.Clone(defaultFallbackOn), string(failContextWindow), string(failRefusal))
	return map[string]any{"anyOf": []any{
		map[string]any{"type": "string"},
		map[string]any{
			"type": "object", "additionalProperties": false, "required": []string{"model"},
			"properties": map[string]any{
				"model":    map[string]any{"type": "string", "description": "The model's name."},
				"on":       map[string]any{"type": "array", "items": map[string]any{"enum": kinds}, "description": "The failures after which it is tried. Default: " + strings.Join(defaultFallbackOn, ", ") + "."},
				"cooldown": map[string]any{"type": "string", "description": "How long later calls begin with this model once it has answered for an earlier one, such as 1m. Default: not at all."},
			},
		},
	}}
}

// Fallback returns a model that calls models in order until one answers (adk-python FallbackModel).
// The next model is called if it lists the failure and no response was yielded yet; each model is
// called once, with the unchanged request. It yields the last called model's error. The model has
// the first one's name and the capabilities that all of them share. A nil logger discards logs.
func Fallback(models []FallbackModel, logger *slog.Logger) model.LLM {
	if len(models) == 1 {
		return models[0].Model
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	models = slices.Clone(models)
	for i := range models {
		m := &models[i]
		if m.Name == "" {
			m.Name = m.Model.Name()
		}
		if m.On == nil {
			m.On = defaultFallbackOn
		}
	}
	return &fallbackModel{LLM: models[0].Model, models: models, logger: logger}
}

type fallbackModel struct {
	model.LLM // the first one
	models    []FallbackModel
	logger    *slog.Logger
	cooldown  atomic.Pointer[fallbackCooldown]
}

// A fallbackCooldown is the model with which calls begin, until a time.
type fallbackCooldown struct {
	begin int
	until time.Time
}

// MixesToolsAndSchema reports whether all models support it.
func (f *fallbackModel) MixesToolsAndSchema() bool {
	return f.allCan(model.CanMixSchema)
}

var (
	_ model.SchemaMixer   = (*fallbackModel)(nil)
	_ model.ContentCacher = (*fallbackModel)(nil)
	_ model.CodeRunner    = (*fallbackModel)(nil)
)

// CachesContents reports whether the first model supports it; the others get the
// complete contents.
func (f *fallbackModel) CachesContents() bool { return model.CanCache(f.LLM) }

// RunsCode reports whether all models support it; see [model.RunsCode].
func (f *fallbackModel) RunsCode() bool { return f.allCan(model.RunsCode) }

// Live returns the first model's live conversations
func (f *fallbackModel) Live() model.LiveLLM { return model.LiveOf(f.LLM) }

func (f *fallbackModel) allCan(can func(model.LLM) bool) bool {
	return !slices.ContainsFunc(f.models, func(m FallbackModel) bool { return !can(m.Model) })
}

// A fallbackStep is why a call goes to a model that is not the first one. Complete
// responses have it as customMetadata model_fallback.
type fallbackStep struct{ from, to, reason string }

// Generate calls the models until one answers; see [model.LLM].
func (f *fallbackModel) Generate(ctx context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		at, step := f.beginCall()
		for {
			call := fallbackCall{llm: f.models[at].Model, step: step, holdRefusal: f.nextModel(at, string(failRefusal)) > 0}
			started, err := call.forwardCall(ctx, ownRequest(req, at > 0), yield)
			if err == nil {
				return
			}
			reason := fallbackReason(err)
			next := f.nextModel(at, reason)
			if started || next == 0 || ctx.Err() != nil {
				f.cooldown.Store(nil)
				call.yieldFailure(err, yield)
				return
			}
			step = &fallbackStep{f.models[at].Name, f.models[next].Name, reason}
			f.logger.WarnContext(ctx, "model failed, trying fallback", "model", step.from, "fallback", step.to, "reason", reason, "error", err)
			if d := f.models[next].Cooldown; d > 0 {
				f.cooldown.Store(&fallbackCooldown{next, time.Now().Add(d)})
			}
			at = next
		}
	}
}

// beginCall returns the model with which a call begins.
func (f *fallbackModel) beginCall() (at int, step *fallbackStep) {
	c := f.cooldown.Load()
	if c == nil || !time.Now().Before(c.until) {
		return 0, nil
	}
	return c.begin, &fallbackStep{f.models[0].Name, f.models[c.begin].Name, "cooldown"}
}

// nextModel returns the first model after at that lists the failure, or 0.
func (f *fallbackModel) nextModel(at int, reason string) int {
	for i := at + 1; i < len(f.models); i++ {
		if slices.Contains(f.models[i].On, reason) {
			return i
		}
	}
	return 0
}

// ownRequest returns the request for a model that is not the first one: the name and the
// cache belong to that.
func ownRequest(req *model.Request, other bool) *model.Request {
	if !other {
		return req
	}
	own := *req
	own.Model, own.Cache = "", nil
	return &own
}

// fallbackReason returns an error's kind, or "".
func fallbackReason(err error) string {
	if _, ok := errors.AsType[*refusalError](err); ok {
		return string(failRefusal)
	}
	if failed, ok := errors.AsType[*model.Error](err); ok {
		return string(kindOfFailure(failed))
	}
	return ""
}

// A fallbackCall is a call to one model.
type fallbackCall struct {
	llm  model.LLM
	step *fallbackStep
	// holdRefusal returns a refusal as an error: another model may answer.
	holdRefusal bool
}

// A refusalError is a response without content that the model or its service refused.
type refusalError struct{ response *model.Response }

func (e *refusalError) Error() string {
	return "model refused: " + e.response.ErrorCode + " " + e.response.ErrorMessage
}

func (c *fallbackCall) forwardCall(ctx context.Context, req *model.Request, yield func(*model.Response, error) bool) (started bool, err error) {
	for resp, err := range c.llm.Generate(ctx, req) {
		if err != nil {
			return started, err
		}
		if c.holdRefusal && !started && isRefusal(resp) {
			return false, &refusalError{resp}
		}
		started = true
		if c.step != nil && !resp.Partial {
			resp = withMetadata(resp, "model_fallback", map[string]any{"from": c.step.from, "to": c.step.to, "reason": c.step.reason})
		}
		if !yield(resp, nil) {
			return started, nil
		}
	}
	return started, nil
}

// yieldFailure yields an error, or a refusal's response.
func (c *fallbackCall) yieldFailure(err error, yield func(*model.Response, error) bool) {
	if refused, ok := errors.AsType[*refusalError](err); ok {
		yield(refused.response, nil)
		return
	}
	yield(nil, err)
}

// isRefusal reports whether a complete response has no content because the service refused that
// content.
func isRefusal(r *model.Response) bool {
	if r.Partial || r.Content != nil && len(r.Content.Parts) > 0 {
		return false
	}
	switch genai.FinishReason(r.ErrorCode) {
	case genai.FinishReasonSafety, genai.FinishReasonProhibitedContent, genai.FinishReasonBlocklist, genai.FinishReasonSPII, genai.FinishReasonRecitation:
		return true
	}
	return r.FinishReason == genai.FinishReasonSafety
}

// withMetadata returns a response copy with custom metadata.
func withMetadata(r *model.Response, key string, value any) *model.Response {
	r = r.Clone()
	if r.CustomMetadata == nil {
		r.CustomMetadata = map[string]any{}
	}
	r.CustomMetadata[key] = value
	return r
}
