package provider

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"time"

	"agenthost/internal/modelcall"
	"agenthost/pkg/model"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

type scriptedConfig struct {
	Provider string    `yaml:"provider" doc:"scripted."`
	Script   spec.Text `yaml:"script" required:"true" doc:"The file with the script, such as demo.script.yaml."`
	Model    string    `yaml:"model" default:"scripted" doc:"The model's name."`

	Retry    *retryConfig   `yaml:"retry" doc:"When to retry failed calls. Default: never."`
	Price    *PriceConfig   `yaml:"price" doc:"The token price. Default: none."`
	Context  *ContextConfig `yaml:"context" doc:"The maximum prompt and response sizes, for check's warnings and editors. Default: unknown."`
	Fallback []FallbackRef  `yaml:"fallback" doc:"Models in the app to try in this order when this one fails."`
}

var (
	_ FallbackConfig = (*scriptedConfig)(nil)
	_ spec.Checker   = (*scriptedConfig)(nil)
)

// Check reports problems that depend on several fields.
func (c *scriptedConfig) Check(n *spec.Node) spec.Diagnostics {
	ds := c.Context.validateContext(n.Get("context"))
	if c.Retry != nil {
		ds = append(ds, c.Retry.validateRetry(n.Get("retry"))...)
	}
	return ds
}

// ModelPrice returns the price.
func (c *scriptedConfig) ModelPrice() *Price { return c.Price.priceOrNil() }

// ContextLimits returns the maximum prompt and response sizes.
func (c *scriptedConfig) ContextLimits() ContextLimits { return c.Context.contextLimits() }

// Fallbacks names the fallback models.
func (c *scriptedConfig) Fallbacks() []FallbackRef { return c.Fallback }

func buildScripted(ctx context.Context, env Env, c *scriptedConfig) (model.LLM, error) {
	if env.File == nil {
		return nil, spec.Diagnostics{c.Script.Errorf(0, "script", "there are no files to read %s from", c.Script)}
	}
	n, ds := env.File(ctx, c.Script)
	if err := ds.Err(); err != nil {
		return nil, err
	}
	script, ds := DecodeScript(n)
	if err := ds.Err(); err != nil {
		return nil, err
	}
	llm := NewScripted(script, &ScriptedOptions{Name: cmp.Or(c.Model, env.Name), Wait: env.Wait})
	if c.Retry != nil {
		env.Provider = "" // a script's errors are complete
		llm = Retry(llm, c.Retry.retryOptions(env))
	}
	return llm, nil
}

// ScriptedOptions configure a scripted model.
type ScriptedOptions struct {
	// Name is the model's name; the default is "scripted".
	Name string
	// Wait waits for an entry's delay, or returns ctx's error; nil uses a timer.
	Wait func(ctx context.Context, d time.Duration) error
}

// NewScripted returns a model that answers from a script that [DecodeScript] returned without
// problems. The first matching entry answers. If none matches, the error is a [*model.Error] that
// describes the request. Each model counts its entries' answers by session, for the 1024 most
// recently used sessions. opts may be nil.
func NewScripted(s *Script, opts *ScriptedOptions) model.LLM {
	m := &scriptedModel{script: s}
	if opts != nil {
		m.opts = *opts
	}
	if m.opts.Name == "" {
		m.opts.Name = "scripted"
	}
	if m.opts.Wait == nil {
		m.opts.Wait = modelcall.WaitFor
	}
	return m
}

type scriptedModel struct {
	script *Script
	opts   ScriptedOptions
	used   answerCounter
}

func (m *scriptedModel) Name() string { return m.opts.Name }

// Generate answers from the script; see [model.LLM].
func (m *scriptedModel) Generate(ctx context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		q := newScriptInput(req, m.script.keys)
		e, err := m.matchEntry(ctx, q, req.Origin)
		if err != nil {
			yield(nil, err)
			return
		}
		if err := m.generateEntry(ctx, e, q, req.Stream, yield); err != nil {
			yield(nil, err)
		}
	}
}

// matchEntry returns the first matching entry that is not used up.
func (m *scriptedModel) matchEntry(ctx context.Context, q *scriptInput, from model.Origin) (*scriptEntry, error) {
	for i, e := range m.script.entries {
		if e.Tool != nil || e.Transcript != nil {
			continue
		}
		if e.when != nil {
			match, err := e.when.Bool(ctx, q.vars)
			if err != nil {
				return nil, e.fieldError("when", err)
			}
			if !match {
				continue
			}
		}
		if m.used.countAnswer(from, i, e.Times) {
			return e, nil
		}
	}
	return nil, m.noMatchError(q)
}

func (m *scriptedModel) noMatchError(q *scriptInput) error {
	return &model.Error{Code: 404, Status: "NOT_FOUND", Message: fmt.Sprintf(
		"no entry of %s answers agent %q, user %q, step %v, tools %s, responses %s; add one, such as - {when: 'agent == %q', text: …}",
		m.script.fileName(), q.vars["agent"], q.vars["user"], q.vars["step"],
		template.String(q.vars["tools"]), template.String(q.vars["responses"]), q.vars["agent"],
	)}
}

// generateEntry yields an entry's response, in chunks when streaming, and returns the error.
func (m *scriptedModel) generateEntry(ctx context.Context, e *scriptEntry, q *scriptInput, stream bool, yield func(*model.Response, error) bool) error {
	if err := m.waitDelay(ctx, e); err != nil {
		return err
	}
	parts, err := e.renderParts(q, stream)
	if err != nil {
		return err
	}
	reason, message, err := e.renderFinish(q)
	if err != nil {
		return err
	}
	var whole model.Aggregator
	whole.Add(&model.Response{ModelVersion: m.opts.Name, FinishReason: reason, UsageMetadata: e.usageMetadata()})
	for i, p := range parts {
		if stream && i > 0 {
			if err := m.waitDelay(ctx, e); err != nil {
				return err
			}
		}
		chunk := &model.Response{Content: modelcall.ModelContent(p), Partial: true, ModelVersion: m.opts.Name}
		whole.Add(chunk)
		if stream && !yield(chunk, nil) {
			return nil
		}
	}
	if e.Close != nil {
		return &model.LiveCloseError{Code: e.Close.Code, Reason: e.Close.Reason}
	}
	answer := whole.Whole()
	if stream || !modelcall.HasParts(answer.Content) {
		answer = modelcall.WithFinishError(answer, message)
	}
	yield(modelcall.WithContent(answer), nil)
	return nil
}

// waitDelay waits for the entry's delay. It returns ctx's error even without a delay.
func (m *scriptedModel) waitDelay(ctx context.Context, e *scriptEntry) error {
	err := ctx.Err()
	if err == nil && e.Delay > 0 {
		err = m.opts.Wait(ctx, time.Duration(e.Delay))
	}
	if err != nil {
		return fmt.Errorf("calling %s: %w", m.opts.Name, err)
	}
	return nil
}
