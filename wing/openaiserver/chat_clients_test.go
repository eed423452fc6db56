package openaiserver_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"agenthost/internal/servertest"
	"agenthost/pkg/session"
)

// The requests in this file have the form that the chat products send, with what their users cannot change.
//
// Open WebUI: backend/open_webui/routers/openai.py (generate_chat_completion) and routers/tasks.py of
// github.com/open-webui/open-webui at 074d4883, with the templates of backend/open_webui/config.py and
// utils/task.py, and the headers of utils/headers.py. A chat streams and includes the usage; a task for the
// title, tags or follow-ups is complete, with max_completion_tokens for the title; the key metadata is
// removed. Headers name the user and the chat with ENABLE_FORWARD_USER_INFO_HEADERS.
//
// LibreChat: packages/api/src/endpoints/openai/llm.ts of github.com/danny-avila/LibreChat at f31d8967 (a
// custom endpoint, by the class ChatOpenAI), and src/utils/title.ts of github.com/danny-avila/agents at
// d8751a6a for titles: titleMethod completion, its default, and structured.

// A chatClient sends a product's requests.
type chatClient struct {
	*testing.T
	e       *servertest.Env
	headers map[string]string
	// messages are the conversation so far.
	messages []map[string]any
}

// post sends a request and returns the answer's text: a complete answer's, or a stream's.
func (c *chatClient) post(body map[string]any) (string, http.Header) {
	c.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		c.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(string(text)))
	r.Header.Set("Content-Type", "application/json")
	for name, value := range c.headers {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	c.e.Server.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		c.Fatal(w.Code, w.Body)
	}
	if body["stream"] != true {
		return c.readAnswer(w.Body.Bytes()), w.Header()
	}
	return c.readStream(w.Body.String()), w.Header()
}

func (c *chatClient) readAnswer(text []byte) string {
	c.Helper()
	var answer struct {
		Choices []struct{ Message struct{ Content string } }
	}
	if err := json.Unmarshal(text, &answer); err != nil || len(answer.Choices) != 1 {
		c.Fatalf("%v: %s", err, text)
	}
	return answer.Choices[0].Message.Content
}

// readStream checks that a stream ends with the usage, which both products show, and returns its text.
func (c *chatClient) readStream(stream string) string {
	c.Helper()
	frames := strings.Split(strings.TrimSpace(stream), "\n\n")
	n := len(frames)
	if n < 3 || frames[n-1] != "data: [DONE]" || !strings.Contains(frames[n-2], `"choices":[],"usage":{`) {
		c.Fatalf("the stream ends without usage: %s", stream)
	}
	var text strings.Builder
	for _, frame := range frames[:n-2] {
		var chunk struct {
			Choices []struct{ Delta struct{ Content string } }
		}
		if err := json.Unmarshal([]byte(strings.TrimPrefix(frame, "data: ")), &chunk); err != nil {
			c.Fatal(err, frame)
		}
		text.WriteString(chunk.Choices[0].Delta.Content)
	}
	return text.String()
}

// sendMessage sends a message of the conversation, and adds it with the answer to the messages.
func (c *chatClient) sendMessage(body map[string]any, text string) (answer, id string) {
	c.Helper()
	c.messages = append(c.messages, map[string]any{"role": "user", "content": text})
	body["messages"] = c.messages
	answer, header := c.post(body)
	c.messages = append(c.messages, map[string]any{"role": "assistant", "content": answer})
	return answer, header.Get("X-Conversation-Id")
}

// checkSessions checks that the user has one session, with a number of events.
func (c *chatClient) checkSessions(user, id string, events int) {
	c.Helper()
	all, err := c.e.Host.Store().Sessions.List(c.Context(), "desk", user)
	if err != nil {
		c.Fatal(err)
	}
	if len(all) != 1 || all[0].ID != id {
		c.Fatalf("the user has %d sessions, want only %s", len(all), id)
	}
	sess, err := c.e.Host.Store().Sessions.Get(c.Context(), session.Key{App: "desk", User: user, ID: id}, nil)
	if err != nil {
		c.Fatal(err)
	}
	if got := len(sess.Events()); got != events {
		c.Errorf("the session has %d events, want %d", got, events)
	}
}

// openWebUITasks are the beginnings and ends of Open WebUI's templates, which contain the chat.
var openWebUITasks = []string{
	"### Task:\nGenerate a concise, 3-5 word title with an emoji summarizing the chat history.\n### Guidelines:\n- Keep it clear.\n### Output:\nJSON format: { \"title\": \"your concise title here\" }\n### Chat History:\n<chat_history>\nUSER: hello\nASSISTANT: You wrote: hello\n</chat_history>",
	"### Task:\nGenerate 1-3 broad tags categorizing the main themes of the chat history, along with 1-3 more specific subtopic tags.\n\n### Guidelines:\n- Prioritize accuracy over specificity\n\n### Output:\nJSON format: { \"tags\": [\"tag1\", \"tag2\", \"tag3\"] }\n\n### Chat History:\n<chat_history>\nUSER: hello\nASSISTANT: You wrote: hello\n</chat_history>",
	"### Task:\nSuggest 3-5 relevant follow-up questions or prompts that the user might naturally ask next in this conversation as a **user**, based on the chat history, to help continue or deepen the discussion.\n### Guidelines:\n- Make questions concise.\n### Output:\nJSON format: { \"follow_ups\": [\"Question 1?\"] }\n### Chat History:\n<chat_history>\nUSER: hello\nASSISTANT: You wrote: hello\n</chat_history>",
	"### Task:\nYou are an autocompletion system. Continue the text in `<text>` based on the **completion type** in `<type>` and the given language.  \n\n---\n### Context:\n<chat_history>\nUSER: hello\n</chat_history>\n<type>General</type>  \n<text>And then</text>  \n#### Output:\n",
	"Your task is to reflect the speaker's likely facial expression through a fitting emoji. Interpret emotions from the message and reflect their facial expression using fitting, diverse emojis.\n\nMessage: ```hello```",
	"You have been provided with a set of responses from various models to the latest user query: \"hello\"\n\nYour task is to synthesize these responses into a single, high-quality response.\n\nResponses from models: Hi.",
}

// sendTasks sends Open WebUI's tasks for the chat, and its choice of a tool, which precedes a message.
func (c *chatClient) sendTasks() {
	c.Helper()
	for _, task := range openWebUITasks {
		body := map[string]any{"model": "desk", "messages": []any{map[string]any{"role": "user", "content": task}}, "stream": false, "max_completion_tokens": 1000}
		if answer, header := c.post(body); answer == "" || header.Get("X-Conversation-Id") != "" {
			c.Errorf("the task %.40q has the answer %q in the session %s", task, answer, header.Get("X-Conversation-Id"))
		}
	}
	c.post(map[string]any{"model": "desk", "stream": false, "messages": []any{
		map[string]any{"role": "system", "content": "Available Tools: []\n\nYour task is to choose and return the correct tool(s) from the list of available tools based on the query. Follow these guidelines:\n\n- Return only the JSON object."},
		map[string]any{"role": "user", "content": "Query: History:\nUSER: \"\"\"hello\"\"\"\nQuery: hello"},
	}})
}

func newOpenWebUIBody() map[string]any {
	return map[string]any{"model": "desk", "stream": true, "stream_options": map[string]any{"include_usage": true}}
}

// An Open WebUI chat is one session, found by its messages or named by the header, and its tasks leave none.
func TestOpenWebUI(t *testing.T) {
	for name, headers := range map[string]map[string]string{
		"without headers": nil,
		"with headers": {
			"X-OpenWebUI-User-Name": "Ann", "X-OpenWebUI-User-Id": "7d1e", "X-OpenWebUI-User-Email": "ann@example.com", "X-OpenWebUI-User-Role": "user",
			"X-OpenWebUI-Chat-Id": "0b8c2f6e-1d0a-4b54-a9a3-3d9a3c0f8a11",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := &chatClient{T: t, e: newEnv(t, nil), headers: headers}
			first, id := c.sendMessage(newOpenWebUIBody(), "hello")
			if first != "You wrote: hello" || headers != nil && id != headers["X-OpenWebUI-Chat-Id"] {
				t.Errorf("the first answer is %q in the session %s", first, id)
			}
			c.sendTasks()
			if second, again := c.sendMessage(newOpenWebUIBody(), "a refund please"); again != id || !strings.Contains(second, "Answer yes or no.") {
				t.Errorf("the second answer is %q in the session %s", second, again)
			}
			c.sendTasks()
			if third, again := c.sendMessage(newOpenWebUIBody(), "yes"); again != id || third != "Paid back." {
				t.Errorf("the third answer is %q in the session %s", third, again)
			}
			c.checkSessions("user", id, 9)
		})
	}
}

func newLibreChatBody() map[string]any {
	return map[string]any{
		"model": "desk", "user": "66f0a1", "temperature": 1, "top_p": 1, "presence_penalty": 0, "frequency_penalty": 0,
		"stream": true, "stream_options": map[string]any{"include_usage": true},
	}
}

// A LibreChat conversation is one session of its user, found by its messages or named by the header; an image
// arrives, and a title leaves no session.
func TestLibreChat(t *testing.T) {
	const titled = "User: hello\nAI: You wrote: hello"
	for name, headers := range map[string]map[string]string{
		"without headers": nil,
		"with headers":    {"X-Conversation-Id": "2c5f8f4e-0f2b-4a0e-8f5e-6a1f3c9d7b21"},
	} {
		t.Run(name, func(t *testing.T) {
			c := &chatClient{T: t, e: newEnv(t, nil), headers: headers}
			c.messages = []map[string]any{{"role": "system", "content": "Write plainly."}}
			first, id := c.sendMessage(newLibreChatBody(), "hello")
			if first != "You wrote: hello" || headers != nil && id != headers["X-Conversation-Id"] {
				t.Errorf("the first answer is %q in the session %s", first, id)
			}
			for _, prompt := range []string{
				"Provide a concise, 5-word-or-less title for the conversation, using title case conventions. Only return the title itself.\n\nConversation:\n" + titled,
				"Analyze this conversation and provide:\n1. The detected language of the conversation\n2. A concise title in the detected language (5 words or less, no punctuation or quotation)\n\n" + titled,
			} {
				body := newLibreChatBody()
				body["messages"] = []any{map[string]any{"role": "user", "content": prompt}}
				if answer, header := c.post(body); answer == "" || header.Get("X-Conversation-Id") != "" {
					t.Errorf("the title %q is in the session %s", answer, header.Get("X-Conversation-Id"))
				}
			}
			c.messages = append(c.messages, map[string]any{"role": "user", "content": []any{
				map[string]any{"type": "text", "text": "look"},
				map[string]any{"type": "image_url", "image_url": map[string]any{"url": "data:image/png;base64,iVBORw0KGgo=", "detail": "auto"}},
			}})
			body := newLibreChatBody()
			body["messages"] = c.messages
			answer, header := c.post(body)
			if answer != "You wrote: look" || header.Get("X-Conversation-Id") != id {
				t.Errorf("the second answer is %q in the session %s", answer, header.Get("X-Conversation-Id"))
			}
			c.checkSessions("66f0a1", id, 4)
		})
	}
}
