// Package openaicompat runs OpenAI's own Go client against apps as models. It is a separate module, because
// that client depends on two clouds' clients.
package openaicompat

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/conversations"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"agenthost"
	"agenthost/pkg/loader"
	"agenthost/pkg/server"
	"agenthost/pkg/spec"
	"agenthost/wing/openaiserver"
)

// desk is an app that answers, thinks, calls the client's tools, asks for an approval and waits.
var desk = map[string]string{
	"app.yaml":        "models: {demo: {provider: scripted, script: demo.script.yaml}}\nopenai_server: {client_tools: true}\n",
	"root_agent.yaml": "name: desk\nmodel: demo\ninstruction: Answer.\ntools:\n  - expr: {name: refund, params: {amount: number}, value: '{\"paid\": args.amount}', confirm: args.amount > 100}\n",
	"demo.script.yaml": `- {when: user contains "always", calls: [{name: refund, args: {amount: 5}}]}
- {when: responses.refund != nil, text: "Paid back."}
- {when: responses.get_weather != nil, text: "It is {responses.get_weather.result} in Rome."}
- {when: user contains "weather", calls: [{name: get_weather, args: {city: Rome}}]}
- {when: user contains "refund", calls: [{name: refund, args: {amount: 500}}]}
- {when: user contains "wait", delay: 1h, text: "Late."}
- {when: user contains "think", thought: "It is 4.", text: "4"}
- {when: user contains "story", text: "Once, in a town, it rained.", chunks: 3}
- {text: "You wrote: {user}"}
`,
}

// newClient returns the client on a host with the app.
func newClient(t *testing.T) openai.Client {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "desk")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range desk {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kinds := agenthost.StandardKinds()
	kinds.Sections = spec.Kinds[loader.SectionEnv, any]{openaiserver.Section()}
	host, err := agenthost.Open(t.Context(), &agenthost.Options{Folders: []string{dir}, Kinds: kinds, Problems: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close() })
	own := host.NewServer(&agenthost.ServerOptions{AutoCreateSession: true, Extensions: []func(*server.Services) *server.Extension{openaiserver.Extend(nil)}})
	t.Cleanup(func() {
		own.Drain()
		own.Abort()
		_ = own.Wait(context.Background())
	})
	web := httptest.NewServer(own)
	t.Cleanup(web.Close)
	return openai.NewClient(option.WithUnsafeAllowHTTP(), option.WithBaseURL(web.URL+"/v1"), option.WithAPIKey("none"), option.WithMaxRetries(0))
}

// expectValue returns a value, and ends the test on an error.
func expectValue[T any](value T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// The models are the apps, and an error is one of the client.
func TestModels(t *testing.T) {
	client := newClient(t)
	list := expectValue(client.Models.List(t.Context()))(t)
	if len(list.Data) != 1 || list.Data[0].ID != "desk" {
		t.Errorf("the models are %s", list.RawJSON())
	}
	if m := expectValue(client.Models.Get(t.Context(), "desk"))(t); m.OwnedBy != "agenthost" {
		t.Errorf("the model is %s", m.RawJSON())
	}
	_, err := client.Models.Get(t.Context(), "other")
	if failed := (*openai.Error)(nil); !errors.As(err, &failed) || failed.StatusCode != http.StatusNotFound || failed.Code != "model_not_found" {
		t.Errorf("an unknown model: %v", err)
	}
}

func newMessage(text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{Model: "desk", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)}}
}

// A completion continues its conversation, also as a stream that the client's accumulator accepts.
func TestCompletions(t *testing.T) {
	client := newClient(t)
	q := newMessage("hello")
	first := expectValue(client.Chat.Completions.New(t.Context(), q))(t)
	if got := first.Choices[0]; got.Message.Content != "You wrote: hello" || got.FinishReason != "stop" {
		t.Fatalf("the answer is %s", first.RawJSON())
	}
	q.Messages = append(q.Messages, first.Choices[0].Message.ToParam(), openai.UserMessage("a story"))
	q.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
	stream := client.Chat.Completions.NewStreaming(t.Context(), q)
	sum, chunks := openai.ChatCompletionAccumulator{}, 0
	for stream.Next() {
		if chunks++; !sum.AddChunk(stream.Current()) {
			t.Fatalf("the accumulator refuses %s", stream.Current().RawJSON())
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if got := sum.Choices[0].Message.Content; got != "Once, in a town, it rained." || chunks < 4 {
		t.Errorf("%d chunks have %q", chunks, got)
	}
}

// The agent calls a client's tool, whose result is a message.
func TestCompletionTools(t *testing.T) {
	client := newClient(t)
	q := newMessage("the weather?")
	q.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
		Name: "get_weather", Parameters: shared.FunctionParameters{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}},
	})}
	first := expectValue(client.Chat.Completions.New(t.Context(), q))(t).Choices[0]
	if len(first.Message.ToolCalls) != 1 || first.FinishReason != "tool_calls" || first.Message.ToolCalls[0].Function.Arguments != `{"city":"Rome"}` {
		t.Fatalf("the answer is %s", first.RawJSON())
	}
	q.Messages = append(q.Messages, first.Message.ToParam(), openai.ToolMessage("sunny", first.Message.ToolCalls[0].ID))
	if got := expectValue(client.Chat.Completions.New(t.Context(), q))(t).Choices[0].Message.Content; got != "It is sunny in Rome." {
		t.Errorf("after the call: %q", got)
	}
}

func newInput(text string) responses.ResponseNewParams {
	return responses.ResponseNewParams{Model: "desk", Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(text)}}
}

// A response has the text, continues by its ID, and is read again; a stream ends with the whole.
func TestResponses(t *testing.T) {
	client := newClient(t)
	first := expectValue(client.Responses.New(t.Context(), newInput("hello")))(t)
	if first.OutputText() != "You wrote: hello" || first.Status != "completed" || first.CompletedAt == 0 {
		t.Fatalf("the response is %s", first.RawJSON())
	}
	if got := expectValue(client.Responses.Get(t.Context(), first.ID, responses.ResponseGetParams{}))(t); got.OutputText() != first.OutputText() {
		t.Errorf("read again: %s", got.RawJSON())
	}
	q := newInput("I think")
	q.PreviousResponseID = openai.String(first.ID)
	stream := client.Responses.NewStreaming(t.Context(), q)
	var text strings.Builder
	var last responses.ResponseStreamEventUnion
	for n := int64(0); stream.Next(); n++ {
		if last = stream.Current(); last.SequenceNumber != n {
			t.Errorf("event %d has the number %d", n, last.SequenceNumber)
		}
		if delta, ok := last.AsAny().(responses.ResponseTextDeltaEvent); ok {
			text.WriteString(delta.Delta)
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	done, ok := last.AsAny().(responses.ResponseCompletedEvent)
	if !ok || text.String() != "4" || done.Response.OutputText() != "4" || done.Response.Output[0].Type != "reasoning" || done.Response.PreviousResponseID != first.ID {
		t.Errorf("the last event is %s", last.RawJSON())
	}
}

// The agent calls a client's function in a response, and stops at max_tool_calls.
func TestResponseTools(t *testing.T) {
	client := newClient(t)
	q := newInput("the weather?")
	q.Tools = []responses.ToolUnionParam{{OfFunction: &responses.FunctionToolParam{Name: "get_weather", Parameters: map[string]any{"type": "object"}}}}
	first := expectValue(client.Responses.New(t.Context(), q))(t)
	if len(first.Output) != 1 || first.Output[0].Type != "function_call" || first.Tools[0].Name != "get_weather" {
		t.Fatalf("the response is %s", first.RawJSON())
	}
	result := responses.ResponseInputItemParamOfFunctionCallOutput("sunny")
	result.OfFunctionCallOutput.CallID = openai.String(first.Output[0].CallID)
	q.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{result}}
	q.PreviousResponseID = openai.String(first.ID)
	if got := expectValue(client.Responses.New(t.Context(), q))(t).OutputText(); got != "It is sunny in Rome." {
		t.Errorf("after the call: %q", got)
	}
	q = newInput("always pay")
	q.MaxToolCalls = openai.Int(2)
	if got := expectValue(client.Responses.New(t.Context(), q))(t); got.Status != "incomplete" || got.IncompleteDetails.Reason != "max_tool_calls" || got.MaxToolCalls != 2 {
		t.Errorf("at the limit: %s", got.RawJSON())
	}
}

// An approval is a request in the output, which the next response answers.
func TestApproval(t *testing.T) {
	client := newClient(t)
	first := expectValue(client.Responses.New(t.Context(), newInput("a refund")))(t)
	if len(first.Output) != 1 || first.Output[0].Type != "mcp_approval_request" || first.Output[0].Name != "refund" {
		t.Fatalf("the response is %s", first.RawJSON())
	}
	q := responses.ResponseNewParams{Model: "desk", PreviousResponseID: openai.String(first.ID)}
	q.Input.OfInputItemList = responses.ResponseInputParam{{OfMcpApprovalResponse: &responses.ResponseInputItemMcpApprovalResponseParam{ApprovalRequestID: first.Output[0].ID, Approve: true}}}
	if got := expectValue(client.Responses.New(t.Context(), q))(t).OutputText(); got != "Paid back." {
		t.Errorf("after the approval: %q", got)
	}
}

// A conversation is created, continued, listed page by page, changed and deleted.
func TestConversations(t *testing.T) {
	client := newClient(t)
	ctx := t.Context()
	c := expectValue(client.Conversations.New(ctx, conversations.ConversationNewParams{
		Items:    []responses.ResponseInputItemUnionParam{responses.ResponseInputItemParamOfMessage("hello", responses.EasyInputMessageRoleUser), responses.ResponseInputItemParamOfMessage("Hi.", responses.EasyInputMessageRoleAssistant)},
		Metadata: shared.Metadata{"topic": "demo"},
	}))(t)
	q := newInput("I think")
	q.Conversation = responses.ResponseNewParamsConversationUnion{OfString: openai.String(c.ID)}
	if got := expectValue(client.Responses.New(ctx, q))(t); got.Conversation.ID != c.ID {
		t.Errorf("the response is %s", got.RawJSON())
	}
	expectValue(client.Conversations.Items.New(ctx, c.ID, conversations.ItemNewParams{Items: []responses.ResponseInputItemUnionParam{responses.ResponseInputItemParamOfMessage("more", responses.EasyInputMessageRoleUser)}}))(t)
	pages := client.Conversations.Items.ListAutoPaging(ctx, c.ID, conversations.ItemListParams{Order: "asc", Limit: openai.Int(2)})
	var types []string
	var last conversations.ConversationItemUnion
	for pages.Next() {
		last = pages.Current()
		types = append(types, last.Type)
	}
	if err := pages.Err(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(types, " "); got != "message message message reasoning message message" {
		t.Errorf("the items are %s", got)
	}
	if got := expectValue(client.Conversations.Items.Get(ctx, c.ID, last.ID, conversations.ItemGetParams{}))(t); got.AsMessage().Content[0].Text != "more" {
		t.Errorf("the last item is %s", got.RawJSON())
	}
	if _, err := client.Conversations.Items.Delete(ctx, c.ID, last.ID); !strings.Contains(readMessage(err), "An item cannot be deleted") {
		t.Errorf("an item is deleted: %v", err)
	}
	expectValue(client.Conversations.Update(ctx, c.ID, conversations.ConversationUpdateParams{Metadata: shared.Metadata{"topic": "other"}}))(t)
	if got := expectValue(client.Conversations.Get(ctx, c.ID))(t); encode(t, got.Metadata) != `{"topic":"other"}` || got.CreatedAt != c.CreatedAt {
		t.Errorf("the conversation is %s", got.RawJSON())
	}
	if got := expectValue(client.Conversations.Delete(ctx, c.ID))(t); !got.Deleted {
		t.Errorf("deleted: %s", got.RawJSON())
	}
	_, err := client.Conversations.Get(ctx, c.ID)
	if failed := (*openai.Error)(nil); !errors.As(err, &failed) || failed.StatusCode != http.StatusNotFound {
		t.Errorf("a deleted conversation: %v", err)
	}
}

// readMessage returns the message in an API error.
func readMessage(err error) string {
	if failed := (*openai.Error)(nil); errors.As(err, &failed) {
		return failed.Message
	}
	return ""
}

// The input items of a response are listed, and a deleted response is not found and not continued.
func TestDeletedResponse(t *testing.T) {
	client, ctx := newClient(t), t.Context()
	first := expectValue(client.Responses.New(ctx, newInput("hello")))(t)
	pages := client.Responses.InputItems.ListAutoPaging(ctx, first.ID, responses.InputItemListParams{Order: "asc", Limit: openai.Int(1)})
	var texts []string
	for pages.Next() {
		texts = append(texts, pages.Current().AsMessage().Content[0].Text)
	}
	if err := pages.Err(); err != nil || strings.Join(texts, " ") != "hello" {
		t.Errorf("the input items are %q: %v", texts, err)
	}
	if err := client.Responses.Delete(ctx, first.ID); err != nil {
		t.Fatal(err)
	}
	_, err := client.Responses.Get(ctx, first.ID, responses.ResponseGetParams{})
	if failed := (*openai.Error)(nil); !errors.As(err, &failed) || failed.StatusCode != http.StatusNotFound {
		t.Errorf("a deleted response is read: %v", err)
	}
	q := newInput("more")
	q.PreviousResponseID = openai.String(first.ID)
	_, err = client.Responses.New(ctx, q)
	if failed := (*openai.Error)(nil); !errors.As(err, &failed) || failed.Code != "previous_response_not_found" {
		t.Errorf("a deleted response is continued: %v", err)
	}
}

func encode(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A response in the background continues without its request; it is followed after an event, and canceled.
func TestBackground(t *testing.T) {
	client := newClient(t)
	q := newInput("I think")
	q.Background = openai.Bool(true)
	started := expectValue(client.Responses.New(t.Context(), q))(t)
	stream := client.Responses.GetStreaming(t.Context(), started.ID, responses.ResponseGetParams{StartingAfter: openai.Int(1)})
	first, last := int64(-1), responses.ResponseStreamEventUnion{}
	for stream.Next() {
		if last = stream.Current(); first < 0 {
			first = last.SequenceNumber
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if done, ok := last.AsAny().(responses.ResponseCompletedEvent); !ok || first != 2 || done.Response.OutputText() != "4" || done.Response.ID != started.ID {
		t.Errorf("followed from event %d to %s", first, last.RawJSON())
	}
	whole := client.Responses.GetStreaming(t.Context(), started.ID, responses.ResponseGetParams{})
	if !whole.Next() || whole.Current().SequenceNumber != 0 {
		t.Errorf("the whole stream begins with %s: %v", whole.Current().RawJSON(), whole.Err())
	}
	_ = whole.Close()
	q = newInput("a story")
	q.Background = openai.Bool(true)
	story := client.Responses.NewStreaming(t.Context(), q)
	var text strings.Builder
	number := int64(-1)
	for story.Next() {
		if last = story.Current(); last.SequenceNumber <= number {
			t.Errorf("event %d follows %d", last.SequenceNumber, number)
		}
		number = last.SequenceNumber
		if delta, ok := last.AsAny().(responses.ResponseTextDeltaEvent); ok {
			text.WriteString(delta.Delta)
		}
	}
	if err := story.Err(); err != nil || text.String() != "Once, in a town, it rained." || last.Type != "response.completed" {
		t.Errorf("the stream has %q and ends with %s: %v", text.String(), last.RawJSON(), err)
	}
	q = newInput("wait")
	q.Background = openai.Bool(true)
	waiting := expectValue(client.Responses.New(t.Context(), q))(t)
	if waiting.Status != "in_progress" {
		t.Errorf("started: %s", waiting.RawJSON())
	}
	if got := expectValue(client.Responses.Cancel(t.Context(), waiting.ID))(t); got.Status != "cancelled" {
		t.Errorf("canceled: %s", got.RawJSON())
	}
}
