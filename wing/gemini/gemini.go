// Package gemini provides Google's models: Gemini through the Gemini API and Vertex AI, the kinds
// vertex_ai and apigee, live conversations, and the Vertex AI evaluation service. Kinds are for the
// loader ([Kind], [VertexKind], [ApigeeKind]), and [New] is for Go callers.
package gemini

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/limit"
	"agenthost/internal/modelapi"
	"agenthost/internal/modelcall"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
)

// New returns the Gemini model with a name. It reads the environment and connects
// on the first call. If a setting is missing, that call fails with a [*model.Error] that
// names it. opts may be nil.
func New(name string, opts *Options) model.LLM {
	g := &gemini{name: name}
	if opts != nil {
		g.opts = *opts
	}
	if g.opts.HTTP == nil {
		g.opts.HTTP = http.DefaultClient
	}
	if g.opts.Clock == nil {
		g.opts.Clock = time.Now
	}
	if g.opts.Logger == nil {
		g.opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &cachingModel{LLM: provider.Retry(g, &g.opts.Retry), gemini: g}
}

// Generate calls the model once with a legal request; see [model.LLM].
func (g *gemini) Generate(ctx context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		client, err := g.clientOrConnect(ctx)
		if err == nil && req.Config != nil && req.Config.HTTPOptions != nil && req.Config.HTTPOptions.BaseURL != "" {
			// Another address would receive the default address's key.
			err = modelcall.NewConfigError(http.StatusBadRequest, "http_options cannot change a call's address: set the model's base_url")
		}
		if err != nil {
			yield(nil, err)
			return
		}
		c, err := newGeminiCall(g.name, client, req)
		if err != nil {
			yield(nil, err)
			return
		}
		if req.Stream {
			c.generateStream(ctx, yield)
			return
		}
		yield(c.generateOnce(ctx))
	}
}

// clientOrConnect creates the client on the first call. After a failure, the next call
// tries again.
func (g *gemini) clientOrConnect(ctx context.Context) (*genai.Client, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.client != nil {
		return g.client, nil
	}
	client, err := g.newClient(ctx)
	g.client = client
	return client, err
}

func newGeminiCall(name string, client *genai.Client, req *model.Request) (*geminiCall, error) {
	c := &geminiCall{client: client, model: req.Model, contents: modelapi.EndWithUser(req.Contents), config: copyConfig(req.Config), budget: modelapi.NewAnswerBudget(req.MaxCalls)}
	if c.model == "" {
		c.model = name
	}
	if modelapi.IsGemini3(c.model) {
		c.contents = modelapi.SignCalls(c.contents)
	}
	c.restoreEmptyText()
	if client.ClientConfig().Backend == genai.BackendGeminiAPI {
		c.config.Labels = nil // only Vertex AI has them
		c.convertParts(developerPart)
	} else {
		c.convertParts(vertexPart)
		c.addAgentLabel(req.Origin.Agent)
	}
	return c, c.withholdValues()
}

// restoreEmptyText sends "text": "" for parts with a thought signature and no text: the
// SDK omits empty texts, and the service rejects parts without data.
func (c *geminiCall) restoreEmptyText() {
	isBare := func(p *genai.Part) bool { return model.IsEmptyText(p) }
	if !slices.ContainsFunc(c.contents, func(c *genai.Content) bool { return slices.ContainsFunc(c.Parts, isBare) }) {
		return
	}
	if c.config.HTTPOptions == nil {
		c.config.HTTPOptions = &genai.HTTPOptions{}
	}
	c.config.HTTPOptions.ExtrasRequestProvider = writeEmptyTexts
}

// dataFields are the part fields that carry data; each part has one.
var dataFields = []string{
	"text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode", "codeExecutionResult", "toolCall", "toolResponse", "audioTranscription",
}

// writeEmptyTexts adds the texts to a request body.
func writeEmptyTexts(body map[string]any) map[string]any {
	for _, content := range toMappings(body["contents"]) {
		for _, part := range toMappings(content["parts"]) {
			_, signed := part["thoughtSignature"]
			if signed && !slices.ContainsFunc(dataFields, func(name string) bool { return part[name] != nil }) {
				part["text"] = ""
			}
		}
	}
	return body
}

// agentLabel is the label for billing by agent (adk-python
// flows/llm_flows/base_llm_flow.py).
const agentLabel = "adk_agent_name"

// addAgentLabel adds the agent's name as a lower case label.
func (c *geminiCall) addAgentLabel(agent string) {
	if c.config.Labels[agentLabel] != "" || agent == "" {
		return
	}
	labels := maps.Clone(c.config.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[agentLabel] = strings.ToLower(agent)
	c.config.Labels = labels
}

// copyConfig copies what the SDK modifies: the instruction role and the config headers. Parallel
// agents may share the config. copyConfig also disables automatic function calling.
func copyConfig(shared *genai.GenerateContentConfig) *genai.GenerateContentConfig {
	var own genai.GenerateContentConfig
	if shared != nil {
		own = *shared
	}
	own.AutomaticContinuation = genai.Ptr(false)
	if own.SystemInstruction != nil {
		own.SystemInstruction = modelapi.DropEmptyParts(own.SystemInstruction)
	}
	if own.SystemInstruction != nil {
		instruction := *own.SystemInstruction
		own.SystemInstruction = &instruction
	}
	if own.HTTPOptions != nil {
		options := *own.HTTPOptions
		options.Headers = options.Headers.Clone()
		options.ExtraBody = maps.Clone(options.ExtraBody)
		options.RetryOptions = nil
		own.HTTPOptions = &options
	}
	return &own
}

// convertParts converts the parts in the contents. It drops a part that becomes nil, and a content
// without parts. It does not modify the contents.
func (c *geminiCall) convertParts(convert func(*genai.Part) *genai.Part) {
	contents := make([]*genai.Content, len(c.contents))
	for i, content := range c.contents {
		contents[i] = content
		for j, p := range content.Parts {
			own := convert(p)
			if own == p {
				continue
			}
			if contents[i] == content {
				contents[i] = &genai.Content{Role: content.Role, Parts: slices.Clone(content.Parts)}
			}
			contents[i].Parts[j] = own
		}
		if contents[i] != content {
			contents[i] = withoutNil(contents[i])
		}
	}
	c.contents = slices.DeleteFunc(contents, func(c *genai.Content) bool { return len(c.Parts) == 0 })
}

// developerPart returns a part without what the Gemini API rejects and Vertex AI accepts:
// display names (as adk-python models/google_llm.py does), and streamed arguments.
func developerPart(p *genai.Part) *genai.Part {
	own := *p
	switch {
	case p.InlineData != nil && p.InlineData.DisplayName != "":
		blob := *p.InlineData
		blob.DisplayName, own.InlineData = "", &blob
	case p.FileData != nil && p.FileData.DisplayName != "":
		file := *p.FileData
		file.DisplayName, own.FileData = "", &file
	case p.FunctionCall != nil && (p.FunctionCall.PartialArgs != nil || p.FunctionCall.WillContinue != nil):
		call := *p.FunctionCall
		call.PartialArgs, call.WillContinue, own.FunctionCall = nil, nil, &call
	default:
		return p
	}
	return &own
}

// vertexPart returns a part without what Vertex AI rejects and the Gemini API accepts:
// metadata, tools that the service called, and responses that continue.
func vertexPart(p *genai.Part) *genai.Part {
	if p.ToolCall != nil || p.ToolResponse != nil {
		return nil
	}
	own := p
	if p.PartMetadata != nil {
		bare := *p
		bare.PartMetadata, own = nil, &bare
	}
	if r := p.FunctionResponse; r != nil && r.WillContinue != nil {
		bare, response := *own, *r
		response.WillContinue = nil
		bare.FunctionResponse, own = &response, &bare
	}
	return own
}

func (c *geminiCall) generateOnce(ctx context.Context) (*model.Response, error) {
	answer, err := c.sendRequest(ctx)
	if err != nil {
		return nil, c.toModelError(ctx, err)
	}
	r, _ := fromGemini(answer)
	if bad, err := unquoteValues(c.budget, r.Content); err != nil {
		return nil, c.toModelError(ctx, err)
	} else if bad != nil {
		return bad.ErrorResponse(r), nil
	}
	return modelcall.WithContent(r), nil
}

func (c *geminiCall) sendRequest(ctx context.Context) (answer *genai.GenerateContentResponse, err error) {
	defer recoverMalformed(&err)
	return c.client.Models.GenerateContent(ctx, c.model, c.contents, c.config)
}

func (c *geminiCall) generateStream(ctx context.Context, yield func(*model.Response, error) bool) {
	// Pull the responses to distinguish panics of the consumer from the SDK's.
	next, stop := iter.Pull2(c.client.Models.GenerateContentStream(ctx, c.model, c.contents, c.config))
	defer stop()
	var whole model.Aggregator
	var finish string
	answered := false
	for {
		chunk, err, ok := nextChunk(next)
		if err != nil {
			yield(nil, c.toModelError(ctx, err))
			return
		}
		if !ok {
			break
		}
		r, message := fromGemini(chunk)
		bad, err := unquoteValues(c.budget, r.Content)
		if err != nil {
			yield(nil, c.toModelError(ctx, err))
			return
		}
		if bad != nil {
			yield(bad.ErrorResponse(r), nil)
			return
		}
		if message != "" {
			finish = message
		}
		answered = answered || len(chunk.Candidates) > 0
		whole.Add(r)
		if err := c.budget.CheckParts(whole.CountParts()); err != nil {
			yield(nil, c.toModelError(ctx, err))
			return
		}
		if !yield(modelcall.ToPartial(r), nil) {
			return
		}
	}
	last := whole.Whole()
	// A candidate without a finish reason is not complete (Google's Candidate reference). A stream
	// without candidates is an empty response, as in ADK.
	if last == nil || answered && last.FinishReason == "" {
		yield(nil, &model.Error{URL: c.resolveAddress(), Message: "Gemini's stream ended before the response was complete"})
		return
	}
	yield(modelcall.WithContent(modelcall.WithFinishError(last, finish)), nil)
}

// resolveAddress returns the service's address for errors.
func (c *geminiCall) resolveAddress() string {
	u, err := url.Parse(c.client.ClientConfig().HTTPOptions.BaseURL)
	if err != nil {
		return ""
	}
	return modelcall.BareURL(u)
}

func nextChunk(next func() (*genai.GenerateContentResponse, error, bool)) (r *genai.GenerateContentResponse, err error, ok bool) {
	defer recoverMalformed(&err)
	return next()
}

// recoverMalformed converts an SDK panic to an error: the SDK uses unchecked type assertions, so a
// response such as {"candidates":[null]} would crash the process.
func recoverMalformed(err *error) {
	if p := recover(); p != nil {
		*err = &model.Error{Message: fmt.Sprintf("malformed response from Gemini: %.200v", p)}
	}
}

// toModelError converts an SDK error. Service and network errors are a *model.Error from the
// transport, or an APIError inside a stream. Others are requests that the SDK rejected.
func (c *geminiCall) toModelError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("calling %s: %w", c.model, ctx.Err())
	}
	if named, ok := errors.AsType[*model.Error](err); ok {
		return named
	}
	if _, ok := errors.AsType[*model.CallsLimitError](err); ok {
		return err
	}
	if tooLarge, ok := errors.AsType[*limit.Error](err); ok {
		return &model.Error{URL: c.resolveAddress(), Message: tooLarge.Error(), Err: tooLarge}
	}
	apiErr, ok := errors.AsType[genai.APIError](err)
	if ok && apiErr.Status == statusTooLarge {
		return &model.Error{URL: c.resolveAddress(), Message: apiErr.Message, Err: &limit.Error{}}
	}
	if ok {
		return &model.Error{URL: c.resolveAddress(), Code: apiErr.Code, Status: apiErr.Status, Reason: errorInfoReason(apiErr.Details), Message: apiErr.Message, Err: modelcall.RetryDelay(apiErr.Details)}
	}
	if urlErr, ok := errors.AsType[*url.Error](err); ok {
		e := &model.Error{Message: "no response from Gemini: " + urlErr.Err.Error(), Err: urlErr.Err}
		if u, err := url.Parse(urlErr.URL); err == nil {
			e.URL = modelcall.BareURL(u)
		}
		return e
	}
	return &model.Error{Code: http.StatusBadRequest, Status: "INVALID_ARGUMENT", Message: err.Error(), Err: err}
}

// fromGemini converts a response or chunk like ADK: it uses the first candidate. Content with
// parts, or the finish reason STOP, is a success; other responses get the finish reason or the
// block reason as their error code; an empty response is an empty success. The second result is the
// finish message.
func fromGemini(answer *genai.GenerateContentResponse) (*model.Response, string) {
	r := &model.Response{ModelVersion: answer.ModelVersion, UsageMetadata: answer.UsageMetadata}
	if len(answer.Candidates) == 0 || answer.Candidates[0] == nil {
		if f := answer.PromptFeedback; f != nil {
			r.ErrorCode, r.ErrorMessage = string(f.BlockReason), f.BlockReasonMessage
		}
		return r, ""
	}
	c := answer.Candidates[0]
	r.Content = withoutNil(c.Content)
	r.FinishReason = c.FinishReason
	r.GroundingMetadata, r.CitationMetadata = c.GroundingMetadata, c.CitationMetadata
	r.AvgLogprobs, r.LogprobsResult = c.AvgLogprobs, c.LogprobsResult
	message := c.FinishMessage
	if sent := answer.SDKHTTPResponse; sent != nil && c.FinishReason != "" {
		message = cmp.Or(message, sent.Headers.Get(finishMessageHeader))
	}
	if !modelcall.HasParts(r.Content) && c.FinishReason != genai.FinishReasonStop {
		r.ErrorCode, r.ErrorMessage = string(c.FinishReason), message
	}
	return r, message
}

// withoutNil removes parts that the service sent as null.
func withoutNil(c *genai.Content) *genai.Content {
	if c != nil {
		c.Parts = slices.DeleteFunc(c.Parts, func(p *genai.Part) bool { return p == nil })
	}
	return c
}
