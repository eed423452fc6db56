package openai

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/modelapi"
	"agenthost/internal/modelcall"
	"agenthost/pkg/model"
)

// apiResponses is the Responses API's name in the config.
const apiResponses = "responses"

// usesResponses reports whether a model is called by the Responses API: as configured, or else if
// it is a reasoning model at OpenAI's own address. Chat completions drop the reasoning between two
// calls in a turn, and the newest models refuse tools there; compatible servers and proxies often
// have only chat completions.
func (o *openAI) usesResponses(name string) bool {
	if o.opts.API != "" {
		return o.opts.API == apiResponses
	}
	u, err := url.Parse(o.resolveEndpoint().Base.Value)
	return err == nil && u.Hostname() == openAIHost && o.vendor.Prefix == openAIPrefix && isReasoningModel(name)
}

// generateResponses calls the model once by the Responses API.
func (o *openAI) generateResponses(ctx context.Context, req *model.Request, yield func(*model.Response, error) bool) {
	target := o.newTarget(cmp.Or(req.Model, o.name))
	target.assumeOpenAI()
	resp, err := o.sendResponses(ctx, target, req)
	if isForgottenReasoning(err) && target.thoughts != modelapi.ThoughtsDrop {
		target.thoughts = modelapi.ThoughtsDrop
		resp, err = o.sendResponses(ctx, target, req)
	}
	if err != nil {
		yield(nil, err)
		return
	}
	defer resp.CloseBody()
	r := &responsesReader{resp: resp, target: target, stream: req.Stream, yield: modelapi.ForwardChunks(req.Stream, yield)}
	if !resp.IsStream(req.Stream) {
		yield(r.readAnswer())
		return
	}
	switch answer, err := r.readStream(); {
	case r.stopped:
	case err != nil:
		yield(nil, err)
	default:
		resp.DrainBody()
		yield(answer, nil)
	}
}

func (o *openAI) sendResponses(ctx context.Context, target *chatTarget, req *model.Request) (*modelapi.Response, error) {
	body, err := o.encodeResponsesRequest(ctx, target, req)
	if err != nil {
		return nil, err
	}
	return o.sendBody(ctx, req, "/responses", body)
}

// isForgottenReasoning reports whether the service refuses reasoning that it cannot decrypt, such
// as another account's. Without the reasoning the session can continue.
func isForgottenReasoning(err error) bool {
	failed, ok := errors.AsType[*model.Error](err)
	if !ok || failed.Code < 400 || failed.Code > 404 {
		return false
	}
	return failed.Reason == "invalid_encrypted_content" || strings.Contains(failed.Message, "Item with id") && strings.Contains(failed.Message, "not found")
}

// A responsesAnswer is the response object.
type responsesAnswer struct {
	Model      string          `json:"model"`
	Status     string          `json:"status"`
	Output     []responsesItem `json:"output"`
	Error      json.RawMessage `json:"error"`
	Incomplete *struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Usage *responsesUsage `json:"usage"`
}

// A responsesItem is an output item.
type responsesItem struct {
	Type   string `json:"type"`
	ID     string `json:"id"`
	Status string `json:"status"`
	// Content belongs to a message or, for open models, is the reasoning text.
	Content []responsesText `json:"content"`
	Phase   string          `json:"phase"`

	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`

	Summary   []responsesText `json:"summary"`
	Encrypted string          `json:"encrypted_content"`
}

// UnmarshalJSON reads the fields in the types that servers write.
func (i *responsesItem) UnmarshalJSON(data []byte) error {
	type plain responsesItem
	own := struct {
		*plain
		ID        modelapi.LooseText                `json:"id"`
		CallID    modelapi.LooseText                `json:"call_id"`
		Arguments modelapi.LooseJSON                `json:"arguments"`
		Content   modelapi.LooseList[responsesText] `json:"content"`
		Summary   modelapi.LooseList[responsesText] `json:"summary"`
	}{plain: (*plain)(i)}
	if err := json.Unmarshal(data, &own); err != nil {
		return err
	}
	i.ID, i.CallID, i.Arguments, i.Content, i.Summary = string(own.ID), string(own.CallID), string(own.Arguments), own.Content, own.Summary
	return nil
}

// A responsesText is output text or a refusal.
type responsesText struct {
	Type    string `json:"type"`
	Text    string `json:"text"`
	Refusal string `json:"refusal"`
}

// UnmarshalJSON reads an object, or its text alone.
func (t *responsesText) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, &t.Text)
	}
	type plain responsesText
	return json.Unmarshal(data, (*plain)(t))
}

type responsesUsage struct {
	Input        modelapi.TokenCount `json:"input_tokens"`
	Output       modelapi.TokenCount `json:"output_tokens"`
	Total        modelapi.TokenCount `json:"total_tokens"`
	InputDetails struct {
		Cached modelapi.TokenCount `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	OutputDetails struct {
		Reasoning modelapi.TokenCount `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
}

// usageMetadata counts thoughts separately from the response, as Gemini does.
func (u *responsesUsage) usageMetadata() *genai.GenerateContentResponseUsageMetadata {
	if u == nil {
		return nil
	}
	chat := &chatUsage{Prompt: u.Input, Completion: u.Output, Total: u.Total, Cached: u.InputDetails.Cached}
	chat.CompletionDetails.Reasoning = u.OutputDetails.Reasoning
	return chat.usageMetadata()
}

// A responsesReader reads a response.
type responsesReader struct {
	resp    *modelapi.Response
	target  *chatTarget
	stream  bool
	yield   func(*model.Response, error) bool
	model   string
	items   []responsesItem // in the stream's order
	parts   int             // from the items
	stopped bool            // the consumer has stopped iterating
}

// readAnswer reads a response that is not streamed.
func (r *responsesReader) readAnswer() (*model.Response, error) {
	raw, err := r.resp.ReadBody()
	if err != nil {
		return nil, err
	}
	var answer responsesAnswer
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, r.resp.MalformedError(raw, err)
	}
	if answer.Status == "" && len(answer.Error) == 0 && len(answer.Output) == 0 {
		return nil, r.resp.MalformedError(raw, errors.New("no status"))
	}
	return r.buildResponse(&answer)
}

// A responsesEvent is a stream event.
type responsesEvent struct {
	Type     string           `json:"type"`
	Delta    string           `json:"delta"`
	Item     *responsesItem   `json:"item"`
	Response *responsesAnswer `json:"response"`

	// An error event has these fields, or error as other services do.
	Code    string          `json:"code"`
	Message string          `json:"message"`
	Error   json.RawMessage `json:"error"`
}

// readStream yields texts, thoughts and calls as they arrive, and returns the complete
// response. The stream is complete after the event with the whole response.
func (r *responsesReader) readStream() (*model.Response, error) {
	for event, err := range r.resp.ReadEvents() {
		if err != nil {
			return nil, err
		}
		if string(event.Data) == "[DONE]" {
			break
		}
		var e responsesEvent
		if err := json.Unmarshal(event.Data, &e); err != nil {
			return nil, r.resp.MalformedError(event.Data, err)
		}
		answer, err := r.handleEvent(&e)
		if answer != nil || err != nil || r.stopped {
			return answer, err
		}
	}
	return nil, r.resp.ToModelError(errors.New("stream ended before the response was complete"))
}

// handleEvent handles an event and returns the response that it completes.
func (r *responsesReader) handleEvent(e *responsesEvent) (*model.Response, error) {
	if e.Response != nil {
		r.model = cmp.Or(e.Response.Model, r.model)
	}
	switch e.Type {
	case "response.output_text.delta":
		r.emitPart(&genai.Part{Text: e.Delta})
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		r.emitPart(&genai.Part{Text: e.Delta, Thought: true})
	case "response.output_item.done":
		if err := r.addItem(e.Item); err != nil {
			return nil, err
		}
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		if e.Response == nil {
			return nil, r.resp.NewError(0, "event "+e.Type+" has no response")
		}
		if len(e.Response.Output) == 0 {
			e.Response.Output = r.items // some services send it empty
		}
		return r.buildResponse(e.Response)
	case "error", "":
		return nil, r.eventError(e)
	}
	return nil, nil
}

// emitPart yields a part as a chunk.
func (r *responsesReader) emitPart(p *genai.Part) {
	if p.FunctionCall != nil || p.Text != "" {
		r.stopped = !r.yield(&model.Response{Content: modelcall.ModelContent(p), ModelVersion: r.model, Partial: true}, nil)
	}
}

// addItem adds a complete item, and yields it if it is a call.
func (r *responsesReader) addItem(item *responsesItem) error {
	if item == nil {
		return nil
	}
	r.items = append(r.items, *item)
	r.parts += 1 + len(item.Content) + len(item.Summary)
	if err := r.resp.Budget.CheckParts(r.parts); err != nil {
		return r.resp.ToModelError(err)
	}
	if item.Type != "function_call" {
		return nil
	}
	if err := r.resp.Budget.AddCall(); err != nil || item.Status == "incomplete" {
		return err
	}
	part, bad, err := decodeChatCall(r.resp, item.toCall())
	if bad == nil && err == nil {
		r.emitPart(part)
	}
	return err
}

func (i *responsesItem) toCall() chatCall {
	return chatCall{ID: i.CallID, Function: chatFunction{Name: i.Name, Arguments: i.Arguments}}
}

// eventError returns the error in an event.
func (r *responsesReader) eventError(e *responsesEvent) error {
	raw := e.Error
	if len(raw) == 0 || string(raw) == "null" {
		raw, _ = json.Marshal(map[string]string{"code": e.Code, "message": cmp.Or(e.Message, "the service sent an error without a message")})
	}
	return r.newFailure(raw)
}

// newFailure returns the error for a failed response. Errors with an unknown code are the server's,
// except input errors.
func (r *responsesReader) newFailure(raw json.RawMessage) error {
	failed := errorInChat(r.resp, raw)
	if failed == nil {
		failed = r.resp.NewError(0, "the response failed without an error")
	}
	if failed.Code == 0 {
		failed.Code = 500
		if strings.Contains(failed.Reason, "image") || strings.Contains(failed.Reason, "invalid") || strings.Contains(failed.Reason, "policy") {
			failed.Code = 400
		}
		failed.Status = modelcall.StatusWord(failed.Code)
	}
	return failed
}

// buildResponse converts a response object.
func (r *responsesReader) buildResponse(answer *responsesAnswer) (*model.Response, error) {
	switch {
	case answer.Status == "completed", answer.Status == "incomplete":
	case answer.Status == "" && len(answer.Output) > 0: // some services send none
	default:
		return nil, r.newFailure(answer.Error)
	}
	resp := &model.Response{ModelVersion: cmp.Or(answer.Model, r.model), UsageMetadata: answer.Usage.usageMetadata(), FinishReason: genai.FinishReasonStop}
	if answer.Status == "incomplete" {
		resp.FinishReason = genai.FinishReasonOther
		if why := answer.Incomplete; why != nil && why.Reason == "max_output_tokens" {
			resp.FinishReason = genai.FinishReasonMaxTokens
		} else if why != nil && why.Reason == "content_filter" {
			resp.FinishReason = genai.FinishReasonSafety
		}
	}
	message := modelcall.FinishMessage(resp.FinishReason)
	r.resp.Budget = modelapi.NewAnswerBudget(r.resp.Budget.MaxCalls) // the whole answer repeats the stream's items
	calls := 0
	for i := range answer.Output {
		if answer.Output[i].Type == "function_call" {
			calls++
		}
	}
	if err := r.resp.Budget.AddCalls(calls); err != nil {
		return nil, err
	}
	content, refusal, bad, err := r.decodeItems(answer)
	if err != nil {
		return nil, err
	}
	if bad != nil {
		return bad.ErrorResponse(resp), nil
	}
	resp.Content = content
	if refusal != "" {
		resp.FinishReason, resp.ErrorMessage, message = genai.FinishReasonSafety, refusal, refusal
	}
	if resp.FinishReason == genai.FinishReasonStop {
		return resp, nil
	}
	if !modelcall.HasParts(content) {
		resp.Content = nil
	}
	if r.stream || resp.Content == nil {
		resp = modelcall.WithFinishError(resp, message)
		resp.ErrorMessage = message
	}
	return modelcall.WithContent(resp), nil
}

// decodeItems converts a response's items. With encrypted reasoning, the parts have their items'
// IDs, because the service requires both together.
func (r *responsesReader) decodeItems(answer *responsesAnswer) (content *genai.Content, refusal string, bad *modelapi.MalformedCall, err error) {
	d := &itemDecoder{target: r.target, content: modelcall.ModelContent()}
	for _, item := range answer.Output {
		d.signed = d.signed || item.Type == "reasoning" && item.Encrypted != ""
	}
	for _, item := range answer.Output {
		switch item.Type {
		case "reasoning":
			d.addReasoning(&item)
		case "message":
			d.addMessage(&item)
		case "function_call":
			part, problem, err := decodeChatCall(r.resp, item.toCall())
			if err != nil {
				return nil, "", nil, err
			}
			if item.Status == "incomplete" {
				problem = problemOrCut(problem, item.toCall(), "length")
			}
			if problem != nil {
				return nil, "", problem, nil
			}
			d.addPart(part, &item)
		}
	}
	return d.content, d.refusal.String(), nil, nil
}

// An itemDecoder converts items to parts.
type itemDecoder struct {
	target  *chatTarget
	signed  bool // the response has encrypted reasoning
	content *genai.Content
	refusal strings.Builder
}

// addPart adds a part from an item.
func (d *itemDecoder) addPart(p *genai.Part, item *responsesItem) {
	if d.signed && item.ID != "" {
		p.PartMetadata = modelapi.VendorMetadata(d.target.vendor, d.target.model)
		p.PartMetadata[itemIDKey] = item.ID
		if item.Phase != "" {
			p.PartMetadata[itemPhaseKey] = item.Phase
		}
	}
	d.content.Parts = append(d.content.Parts, p)
}

func (d *itemDecoder) addMessage(item *responsesItem) {
	for _, c := range item.Content {
		d.refusal.WriteString(c.Refusal)
		if c.Text != "" {
			d.addPart(&genai.Part{Text: c.Text}, item)
		}
	}
}

// addReasoning adds the summaries as thoughts; the first has the encrypted reasoning.
func (d *itemDecoder) addReasoning(item *responsesItem) {
	texts := item.Summary
	if len(texts) == 0 {
		texts = item.Content
	}
	if len(texts) == 0 {
		texts = []responsesText{{}}
	}
	for i, text := range texts {
		part := &genai.Part{Text: text.Text, Thought: true}
		if i == 0 && item.Encrypted != "" {
			part.ThoughtSignature = []byte(item.Encrypted)
		}
		if part.Text == "" && part.ThoughtSignature == nil {
			continue
		}
		if d.addPart(part, item); part.PartMetadata != nil {
			part.PartMetadata[thoughtFieldKey] = fieldEncrypted
		}
	}
}
