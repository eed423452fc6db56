package gemini

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"slices"

	"google.golang.org/genai"

	"agenthost/internal/legalrequest"
	"agenthost/internal/modelcall"
	"agenthost/pkg/model"
)

// minCachedTokens is the service's minimum prompt size for a cache.
const minCachedTokens = 4096

// cachingModel implements [model.Request.Cache] like adk-python
// models/gemini_context_cache_manager.py: the first response carries only its request's
// fingerprint. A later request with the same prefix creates a cache, which the next ones use until
// it expires, was used often enough, or the prefix changes. It wraps the retries, so that a retried
// call creates no second cache. It is stateless.
type cachingModel struct {
	model.LLM
	gemini *gemini
}

var (
	_ model.SchemaMixer   = (*cachingModel)(nil)
	_ model.ContentCacher = (*cachingModel)(nil)
	_ model.CodeRunner    = (*cachingModel)(nil)
)

// CachesContents returns true; see [model.CanCache].
func (c *cachingModel) CachesContents() bool { return true }

// RunsCode returns true; see [model.RunsCode].
func (c *cachingModel) RunsCode() bool { return true }

// Live returns the model without caches: live conversations have none.
func (c *cachingModel) Live() model.LiveLLM { return c.gemini }

// Generate calls the model once, with a cache if requested; see [model.LLM].
func (c *cachingModel) Generate(ctx context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		// The request is made legal first: cache metadata counts contents.
		legal := legalrequest.New(ctx, c.gemini.requestRules(), geminiVendor, req)
		yield = legal.RestoreCalls(yield)
		if req.Cache == nil {
			c.LLM.Generate(ctx, legal.Request)(yield)
			return
		}
		if err := c.generateCached(ctx, &cacheResolver{gemini: c.gemini, req: legal.Request, config: req.Cache}, yield); err != nil {
			yield(nil, err)
		}
	}
}

// generateCached yields the responses and returns the error.
func (c *cachingModel) generateCached(ctx context.Context, k *cacheResolver, yield func(*model.Response, error) bool) error {
	metadata, err := k.resolveCache(ctx)
	if err != nil {
		return err
	}
	if metadata.Active() {
		stale, err := c.generateWith(ctx, k.requestWithCache(metadata), metadata, yield)
		if !stale {
			return err
		}
		c.gemini.opts.Logger.WarnContext(ctx, "cached contents unusable, sending all contents",
			"model", k.modelName(), "cache", metadata.Name, "error", err)
		metadata = withoutCache(metadata)
	}
	_, err = c.generateWith(ctx, k.req, metadata, yield)
	return err
}

// generateWith calls the model and adds the metadata to the complete response. It
// returns a failure; stale is set if the cache may be the cause and nothing was yielded.
func (c *cachingModel) generateWith(ctx context.Context, req *model.Request, metadata *model.CacheMetadata, yield func(*model.Response, error) bool) (stale bool, err error) {
	started := false
	for resp, err := range c.LLM.Generate(ctx, req) {
		if err != nil {
			if !started && metadata.Active() && isCacheError(err) {
				return true, err
			}
			return false, err
		}
		started = true
		if !resp.Partial {
			resp.CacheMetadata = metadata
		}
		if !yield(resp, nil) {
			return false, nil
		}
	}
	return false, nil
}

// isCacheError reports whether an unavailable cache may be the cause: the service then
// reports it as forbidden, not found or expired. If the request itself is invalid, the
// retry without the cache fails again.
func isCacheError(err error) bool {
	failed, ok := errors.AsType[*model.Error](err)
	return ok && slices.Contains([]int{http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound}, failed.Code)
}

// A cacheResolver finds or creates one request's cache.
type cacheResolver struct {
	gemini *gemini
	req    *model.Request
	config *model.CacheRequest
}

func (k *cacheResolver) modelName() string { return cmp.Or(k.req.Model, k.gemini.name) }

// resolveCache returns the metadata to use. The cache of active metadata contains the beginning of
// the request.
func (k *cacheResolver) resolveCache(ctx context.Context) (*model.CacheMetadata, error) {
	old, all := k.config.Metadata, len(k.req.Contents)
	if old == nil {
		return k.fingerprintPrefix(all)
	}
	same, err := k.hasSamePrefix(old)
	if err != nil {
		return nil, err
	}
	if same && k.isUsable(old) {
		return old, nil
	}
	if old.Active() {
		k.deleteCache(ctx, old.Name)
	}
	if !same {
		return k.fingerprintPrefix(all)
	}
	if made := k.createCache(ctx, old); made != nil {
		return made, nil
	}
	return withoutCache(old), nil
}

// withoutCache keeps the fingerprint, so that the next request may create a cache.
func withoutCache(m *model.CacheMetadata) *model.CacheMetadata {
	return &model.CacheMetadata{Fingerprint: m.Fingerprint, Contents: m.Contents}
}

// isUsable reports whether there is a cache that may still be used.
func (k *cacheResolver) isUsable(m *model.CacheMetadata) bool {
	return m.Active() && k.gemini.opts.Clock().Before(m.Expires) && m.Used <= k.config.Intervals
}

// hasSamePrefix reports whether the request starts with the metadata's prefix. At least one content
// must follow: the service requires contents in addition to a cache.
func (k *cacheResolver) hasSamePrefix(m *model.CacheMetadata) (bool, error) {
	if m.Contents < 0 || m.Contents >= len(k.req.Contents) {
		return false, nil
	}
	now, err := k.fingerprintPrefix(m.Contents)
	return err == nil && now.Fingerprint == m.Fingerprint, err
}

// fingerprintPrefix hashes the model, the first n contents and everything cached with
// them.
func (k *cacheResolver) fingerprintPrefix(n int) (*model.CacheMetadata, error) {
	h := sha256.New()
	config := k.req.Config
	err := json.NewEncoder(h).Encode([]any{
		k.modelName(), config.SystemInstruction, config.Tools, config.ToolConfig, k.req.Contents[:n],
	})
	if err != nil {
		return nil, &model.Error{
			Code: http.StatusBadRequest, Status: modelcall.StatusWord(http.StatusBadRequest), Message: "request is not valid JSON: " + err.Error(), Err: err,
		}
	}
	return &model.CacheMetadata{Fingerprint: hex.EncodeToString(h.Sum(nil))[:16], Contents: n}, nil
}

// createCache caches the prefix that m describes. It returns nil if the prefix is too small or the
// service refuses; the request is then sent completely.
func (k *cacheResolver) createCache(ctx context.Context, m *model.CacheMetadata) *model.CacheMetadata {
	if k.config.PromptTokens < max(k.config.MinTokens, minCachedTokens) {
		return nil
	}
	// Take the time before the call, so that the local expiry is the earlier one.
	now := k.gemini.opts.Clock()
	name, err := k.gemini.createCache(ctx, k, m.Contents, fmt.Sprintf("adk-cache-%d-%dcontents", now.Unix(), m.Contents))
	if err != nil {
		k.gemini.opts.Logger.WarnContext(ctx, "creating context cache failed, sending all contents", "model", k.modelName(), "error", err)
		return nil
	}
	return &model.CacheMetadata{
		Name: name, Expires: now.Add(k.config.TTL), Used: 1,
		Fingerprint: m.Fingerprint, Contents: m.Contents, Created: now,
	}
}

// deleteCache deletes an obsolete cache. If that fails, the cache expires on its own, if
// it has not already.
func (k *cacheResolver) deleteCache(ctx context.Context, name string) {
	err := k.gemini.deleteCache(ctx, k, name)
	if err == nil {
		return
	}
	level := slog.LevelWarn
	if isCacheError(err) {
		level = slog.LevelDebug
	}
	k.gemini.opts.Logger.Log(ctx, level, "deleting context cache failed", "model", k.modelName(), "cache", name, "error", err)
}

// requestWithCache returns the request without the cached contents.
func (k *cacheResolver) requestWithCache(m *model.CacheMetadata) *model.Request {
	short := *k.req
	config := *k.req.Config
	config.SystemInstruction, config.Tools, config.ToolConfig = nil, nil, nil
	config.CachedContent = m.Name
	short.Config, short.Contents = &config, k.req.Contents[m.Contents:]
	return &short
}

// createCache caches the first n contents at the service with their settings, in the
// form in which they would be sent.
func (g *gemini) createCache(ctx context.Context, k *cacheResolver, n int, title string) (name string, err error) {
	client, err := g.clientOrConnect(ctx)
	if err != nil {
		return "", err
	}
	sent, err := newGeminiCall(g.name, client, k.req)
	if err != nil {
		return "", err
	}
	defer recoverMalformed(&err)
	made, err := client.Caches.Create(ctx, sent.model, &genai.CreateCachedContentConfig{
		HTTPOptions: cacheHTTP(sent.config), TTL: k.config.TTL, DisplayName: title, Contents: sent.contents[:n],
		SystemInstruction: sent.config.SystemInstruction, Tools: sent.config.Tools, ToolConfig: sent.config.ToolConfig,
	})
	if err != nil {
		return "", sent.toModelError(ctx, err)
	}
	if made.Name == "" {
		return "", &model.Error{Message: "Gemini returned a cache without a name"}
	}
	return made.Name, nil
}

func (g *gemini) deleteCache(ctx context.Context, k *cacheResolver, name string) (err error) {
	client, err := g.clientOrConnect(ctx)
	if err != nil {
		return err
	}
	sent := &geminiCall{client: client, model: k.modelName(), config: copyConfig(k.req.Config)}
	defer recoverMalformed(&err)
	if _, err := client.Caches.Delete(ctx, name, &genai.DeleteCachedContentConfig{HTTPOptions: cacheHTTP(sent.config)}); err != nil {
		return sent.toModelError(ctx, err)
	}
	return nil
}

// cacheHTTP returns the HTTP options for calls about a request's cache: the request's headers, but
// not its additions to the body.
func cacheHTTP(config *genai.GenerateContentConfig) *genai.HTTPOptions {
	if config.HTTPOptions == nil {
		return nil
	}
	options := *config.HTTPOptions
	options.BaseURL = "" // the key is for the model's own address
	options.Headers = options.Headers.Clone()
	options.ExtraBody = nil
	return &options
}

// MixesToolsAndSchema reports the model's capability.
func (c *cachingModel) MixesToolsAndSchema() bool { return c.gemini.MixesToolsAndSchema() }

// The vendors that mark parts.
const (
	geminiVendor = "gemini"
)
