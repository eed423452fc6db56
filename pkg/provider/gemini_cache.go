package provider

import (
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

	"agenthost/pkg/model"
)

// minCachedTokens is the smallest prompt that the service keeps, in tokens.
const minCachedTokens = 4096

// cachingModel answers [model.Request.Cache] by the algorithm of adk-python
// models/gemini_context_cache_manager.py: the first answer only tells the
// fingerprint of its request; a later request that begins with the same makes a
// cache of it, and those after it use that cache until it ends, was used
// often enough, or the beginning differs. It stands around the retries, so that
// a call that is repeated makes no second cache. It remembers nothing.
type cachingModel struct {
	model.LLM
	gemini *gemini
}

// CachesContents says that it does; see [model.CanCache].
func (c *cachingModel) CachesContents() bool { return true }

// RunsCode says that Gemini does; see [model.RunsCode].
func (c *cachingModel) RunsCode() bool { return true }

// Generate asks once, with a cache where that is asked for; see [model.LLM].
func (c *cachingModel) Generate(ctx context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	if req.Cache == nil {
		return c.LLM.Generate(ctx, req)
	}
	return func(yield func(*model.Response, error) bool) {
		// What a cache holds is counted in contents, so that none may come later.
		if err := c.generateCached(ctx, &cacheResolver{gemini: c.gemini, req: normalizeRequest(req), config: req.Cache}, yield); err != nil {
			yield(nil, err)
		}
	}
}

// generateCached yields the responses; an error is not yielded but returned.
func (c *cachingModel) generateCached(ctx context.Context, k *cacheResolver, yield func(*model.Response, error) bool) error {
	metadata, err := k.resolveCache(ctx)
	if err != nil {
		return err
	}
	if metadata.Active() {
		lost, err := c.generateWith(ctx, k.requestWithCache(metadata), metadata, yield)
		if !lost {
			return err
		}
		c.gemini.opts.Logger.WarnContext(ctx, "cached contents unusable, sending all contents",
			"model", k.modelName(), "cache", metadata.Name, "error", err)
		metadata = withoutCache(metadata)
	}
	_, err = c.generateWith(ctx, k.req, metadata, yield)
	return err
}

// generateWith asks, and adds the metadata to the whole answer. A failure is returned;
// lost says that the cache may be to blame for it, and nothing was yielded.
func (c *cachingModel) generateWith(ctx context.Context, req *model.Request, metadata *model.CacheMetadata, yield func(*model.Response, error) bool) (lost bool, err error) {
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

// isCacheError: a cache that is gone is said to be forbidden, not found or
// expired. When it is the request that is wrong, the same is said again of the
// request without the cache.
func isCacheError(err error) bool {
	failed, ok := errors.AsType[*model.Error](err)
	return ok && slices.Contains([]int{http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound}, failed.Code)
}

// A keeper finds the cache for one request.
type cacheResolver struct {
	gemini *gemini
	req    *model.Request
	config *model.CacheRequest
}

func (k *cacheResolver) modelName() string { return firstNonEmpty(k.req.Model, k.gemini.name) }

// resolveCache says what to use: an active one names a cache that holds the
// beginning of the request.
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

// withoutCache keeps the prefix, so that the next request may make a cache of
// it.
func withoutCache(m *model.CacheMetadata) *model.CacheMetadata {
	return &model.CacheMetadata{Fingerprint: m.Fingerprint, Contents: m.Contents}
}

// isUsable says whether there is a cache that may still be used.
func (k *cacheResolver) isUsable(m *model.CacheMetadata) bool {
	return m.Active() && k.gemini.opts.Clock().Before(m.Expires) && m.Used <= k.config.Intervals
}

// hasSamePrefix says whether the request begins as the one that the metadata
// tells of. Something must follow: the service wants contents beside a cache.
func (k *cacheResolver) hasSamePrefix(m *model.CacheMetadata) (bool, error) {
	if m.Contents < 0 || m.Contents >= len(k.req.Contents) {
		return false, nil
	}
	now, err := k.fingerprintPrefix(m.Contents)
	return err == nil && now.Fingerprint == m.Fingerprint, err
}

// fingerprintPrefix stands for the first n contents and all that is cached with them.
// The model belongs to it, because a cache is of one model.
func (k *cacheResolver) fingerprintPrefix(n int) (*model.CacheMetadata, error) {
	h := sha256.New()
	config := k.req.Config
	err := json.NewEncoder(h).Encode([]any{
		k.modelName(), config.SystemInstruction, config.Tools, config.ToolConfig, k.req.Contents[:n],
	})
	if err != nil {
		return nil, &model.Error{
			Code: http.StatusBadRequest, Status: statusWord(http.StatusBadRequest), Message: "the request is no JSON: " + err.Error(), Err: err,
		}
	}
	return &model.CacheMetadata{Fingerprint: hex.EncodeToString(h.Sum(nil))[:16], Contents: n}, nil
}

// createCache makes a cache of the prefix that m tells of. It is nil when the prefix
// is too small for one, or the service refuses: then everything is sent.
func (k *cacheResolver) createCache(ctx context.Context, m *model.CacheMetadata) *model.CacheMetadata {
	if k.config.PromptTokens < max(k.config.MinTokens, minCachedTokens) {
		return nil
	}
	// The time before the call: the service's cache ends a little later.
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

// deleteCache deletes a cache that is of no more use. When that fails, the cache
// ends by itself; most often it has done so already.
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

// requestWithCache is the request without what the cache holds.
func (k *cacheResolver) requestWithCache(m *model.CacheMetadata) *model.Request {
	short := *k.req
	config := *k.req.Config
	config.SystemInstruction, config.Tools, config.ToolConfig = nil, nil, nil
	config.CachedContent = m.Name
	short.Config, short.Contents = &config, k.req.Contents[m.Contents:]
	return &short
}

// createCache keeps the first n contents at the service, with the settings
// that belong to them, in the same form in which they would be sent.
func (g *gemini) createCache(ctx context.Context, k *cacheResolver, n int, title string) (name string, err error) {
	client, err := g.clientOrConnect(ctx)
	if err != nil {
		return "", err
	}
	sent := newGeminiCall(g.name, client, k.req)
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

// cacheHTTP has the headers of the request for calls about its cache; what it
// adds to the body is meant for the request alone.
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

// MixesToolsAndSchema says what the model itself says.
func (c *cachingModel) MixesToolsAndSchema() bool { return c.gemini.MixesToolsAndSchema() }
