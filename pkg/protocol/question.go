package protocol

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"google.golang.org/genai"

	"agenthost/internal/terminal"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
)

// A Question is a call that waits for a person, in words: a client that has only text shows Text,
// and sends the person's next message as the answer.
type Question struct {
	Call *genai.FunctionCall
	// Text depends on the call only, so that a client that sends it back is recognized.
	Text string
	// options are those of a choice.
	options []string
	// schema is the answer's; nil for text.
	schema map[string]any
}

// Limits for questions.
const (
	maxText    = 4000
	maxOptions = 50
)

// ListQuestions returns the questions among the calls that wait in a session's events, the oldest
// first. A call of a long-running tool, which a person cannot answer, is omitted.
func ListQuestions(events []*session.Event) []*Question {
	var all []*Question
	for _, waiting := range runtime.Pending(session.Recorded(events)) {
		for _, c := range waiting.Calls {
			if q := NewQuestion(c); q != nil {
				all = append(all, q)
			}
		}
	}
	return all
}

// NewQuestion returns a call as a question; nil if a person cannot answer it. Characters that hide
// text are removed, because the person must see what runs.
func NewQuestion(c *genai.FunctionCall) *Question {
	q := &Question{Call: c}
	if a := runtime.ReadApproval(c); a != nil {
		text := DescribeApproval(a)
		if args, err := server.EncodeJSON(a.Args); err == nil && len(a.Args) > 0 {
			text = cleanText(text + "\n\n`" + strings.ReplaceAll(string(args), "`", "'") + "`")
		}
		q.Text = text + "\n\nAnswer yes or no."
		return q
	}
	switch c.Name {
	case tool.UserChoice:
		return q.readOptions()
	case tool.RequestInput:
		return q.readInput()
	case runtime.RequestCredential:
		address, code := ReadAuthorization(c)
		if address == "" {
			return nil
		}
		q.Text = "Give your permission at " + address
		if code != "" {
			q.Text += " with the code " + cleanText(code)
		}
		q.Text += ", then answer done."
		return q
	}
	return nil
}

// DescribeApproval returns the question that an approval puts to a person.
func DescribeApproval(a *runtime.ApprovalRequest) string {
	text := a.Hint
	if text == "" || text == tool.DefaultConfirmationHint(a.Tool) {
		text = fmt.Sprintf("Approve the call of %s?", a.Tool)
	}
	return cleanText(text)
}

func cleanText(text string) string {
	text = terminal.Clean(text)
	if runes := []rune(text); len(runes) > maxText {
		return string(runes[:maxText-1]) + "…"
	}
	return text
}

func (q *Question) readOptions() *Question {
	options, _ := q.Call.Args["options"].([]any)
	if len(options) == 0 || len(options) > maxOptions {
		return nil
	}
	var text strings.Builder
	text.WriteString("Choose one:\n")
	for i, o := range options {
		option, ok := o.(string)
		if !ok {
			return nil
		}
		q.options = append(q.options, option)
		fmt.Fprintf(&text, "\n%d. %s", i+1, cleanText(option))
	}
	q.Text = text.String()
	return q
}

func (q *Question) readInput() *Question {
	q.Text = readMessage(q.Call)
	q.schema, _ = q.Call.Args["response_schema"].(map[string]any)
	kind, _ := q.schema["type"].(string)
	if q.schema != nil && !isSimple(kind) {
		if form, err := server.EncodeJSON(q.schema); err == nil {
			q.Text += "\n\nAnswer with JSON that matches `" + strings.ReplaceAll(string(form), "`", "'") + "`."
		}
	}
	return q
}

func readMessage(c *genai.FunctionCall) string {
	text, _ := c.Args["message"].(string)
	return cmp.Or(cleanText(text), "Input is required.")
}

func isSimple(kind string) bool {
	return slices.Contains([]string{"string", "number", "integer", "boolean"}, kind)
}

// ReadAuthorization returns the address where a user authorizes a connection, and a code to enter. The
// address is ASCII, so that it shows where it leads; it is empty without a valid one.
func ReadAuthorization(c *genai.FunctionCall) (address, code string) {
	config, _ := c.Args["authConfig"].(map[string]any)
	exchanged, _ := config["exchangedAuthCredential"].(map[string]any)
	grant, _ := exchanged["oauth2"].(map[string]any)
	written, _ := grant["authUri"].(string)
	u, err := url.Parse(written)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return "", ""
	}
	code, _ = grant["userCode"].(string)
	return u.String(), code
}

// Words that answer an approval.
var (
	yesWords = []string{"yes", "y", "ok", "okay", "approve", "approved", "confirm", "confirmed", "true"}
	noWords  = []string{"no", "n", "reject", "rejected", "decline", "declined", "deny", "cancel", "false"}
)

// ErrNotAnAnswer reports that a message does not answer a question.
var ErrNotAnAnswer = errors.New("the message does not answer the question")

// ReadAnswer returns the function response for a person's answer. The error is [ErrNotAnAnswer], or
// wraps it with the rule of the answer's schema.
func (q *Question) ReadAnswer(ctx context.Context, text string) (map[string]any, error) {
	text = strings.TrimSpace(text)
	if a := runtime.ReadApproval(q.Call); a != nil {
		return readApproval(a, text)
	}
	switch {
	case q.Call.Name == runtime.RequestCredential:
		return map[string]any{}, nil // the host has received the authorization server's answer
	case text == "":
		return nil, ErrNotAnAnswer
	case q.options != nil:
		return q.readChoice(text)
	case q.schema == nil:
		return map[string]any{"result": text}, nil
	}
	return q.readValue(ctx, text)
}

func readApproval(a *runtime.ApprovalRequest, text string) (map[string]any, error) {
	word := strings.ToLower(strings.TrimRightFunc(text, unicode.IsPunct))
	if object, err := session.DecodeMap([]byte(text)); err == nil {
		if confirmed, ok := object["confirmed"].(bool); ok {
			word = strconv.FormatBool(confirmed)
		}
	}
	isYes := slices.Contains(yesWords, word)
	if !isYes && !slices.Contains(noWords, word) {
		return nil, ErrNotAnAnswer
	}
	return NewDecision(a, isYes), nil
}

// NewDecision returns the function response that approves or rejects a call.
func NewDecision(a *runtime.ApprovalRequest, confirmed bool) map[string]any {
	response := map[string]any{"confirmed": confirmed}
	if confirmed && a.Payload != nil {
		response["payload"] = a.Payload
	}
	return response
}

// readChoice accepts an option, or its number.
func (q *Question) readChoice(text string) (map[string]any, error) {
	for _, option := range q.options {
		if strings.EqualFold(strings.TrimSpace(option), text) {
			return map[string]any{"result": option}, nil
		}
	}
	if n, err := strconv.Atoi(strings.TrimRightFunc(text, unicode.IsPunct)); err == nil && n >= 1 && n <= len(q.options) {
		return map[string]any{"result": q.options[n-1]}, nil
	}
	return nil, ErrNotAnAnswer
}

// readValue accepts text for a schema of text, and otherwise JSON that matches the schema.
func (q *Question) readValue(ctx context.Context, text string) (map[string]any, error) {
	schema, err := declare.Schema(q.schema)
	if err != nil {
		return map[string]any{"result": text}, nil
	}
	var value any = text
	if q.schema["type"] == "string" {
		value, err = schema.Check(ctx, text)
	} else {
		value, err = schema.Parse(ctx, text)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotAnAnswer, err)
	}
	if object, ok := value.(map[string]any); ok {
		return object, nil
	}
	return map[string]any{"result": value}, nil
}
