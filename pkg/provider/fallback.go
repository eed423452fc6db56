package provider

import (
	"context"
	"errors"
	"iter"
	"log/slog"

	"agenthost/pkg/model"
)

// Fallback returns a model that tries others in order when llm fails with a retryable
// error and has yielded no response yet. It has the name of llm and the capabilities
// that all models share. A nil logger discards logs.
func Fallback(llm model.LLM, others []model.LLM, logger *slog.Logger) model.LLM {
	if len(others) == 0 {
		return llm
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &fallbackModel{LLM: llm, others: others, logger: logger}
}

type fallbackModel struct {
	model.LLM
	others []model.LLM
	logger *slog.Logger
}

// MixesToolsAndSchema reports whether all models support it.
func (f *fallbackModel) MixesToolsAndSchema() bool {
	return f.allCan(mixesToolsAndSchema)
}

var (
	_ schemaMixer         = (*fallbackModel)(nil)
	_ model.ContentCacher = (*fallbackModel)(nil)
	_ model.CodeRunner    = (*fallbackModel)(nil)
)

// CachesContents reports whether the first model supports it; the others get the
// complete contents.
func (f *fallbackModel) CachesContents() bool { return model.CanCache(f.LLM) }

// RunsCode reports whether all models support it; see [model.RunsCode].
func (f *fallbackModel) RunsCode() bool { return f.allCan(model.RunsCode) }

func (f *fallbackModel) allCan(can func(model.LLM) bool) bool {
	for _, m := range f.others {
		if !can(m) {
			return false
		}
	}
	return can(f.LLM)
}

// Generate tries the models until one succeeds; see [model.LLM]. It yields the last
// error.
func (f *fallbackModel) Generate(ctx context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		asked := f.LLM
		for _, next := range f.others {
			started, err := forwardResponses(ctx, asked, req, yield)
			if err == nil {
				return
			}
			if started || !fallsBack(err) || ctx.Err() != nil {
				yield(nil, err)
				return
			}
			f.logger.WarnContext(ctx, "model failed, trying fallback", "model", asked.Name(), "fallback", next.Name(), "error", err)
			// The name and the cache belong to the first model.
			own := *req
			own.Model, own.Cache = "", nil
			asked, req = next, &own
		}
		if _, err := forwardResponses(ctx, asked, req, yield); err != nil {
			yield(nil, err)
		}
	}
}

// fallsBack reports whether another model may answer after an error.
func fallsBack(err error) bool {
	failed, ok := errors.AsType[*model.Error](err)
	if !ok {
		return false
	}
	switch kindOfFailure(failed) {
	case failRateLimit, failOverloaded, failConnection, failTimeout, failCredit:
		return true
	}
	return false
}
