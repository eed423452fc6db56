package modeltest

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
)

// Lookup returns a lookup in variables.
func Lookup(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}
}

// Ask calls the model with one user message.
func Ask(t *testing.T, llm model.LLM, stream bool) ([]*model.Response, error) {
	t.Helper()
	return Collect(llm.Generate(t.Context(), ScriptInput("hi", stream)))
}

// ScriptInput returns a request with one user message.
func ScriptInput(text string, stream bool) *model.Request {
	return &model.Request{
		Contents: []*genai.Content{model.UserText(text)}, Config: &genai.GenerateContentConfig{}, Stream: stream,
		Origin: model.Origin{App: "app", Agent: "root", UserID: "u", SessionID: "s", UserText: text},
	}
}

// Collect returns all responses, and the error that ends them.
func Collect(seq iter.Seq2[*model.Response, error]) ([]*model.Response, error) {
	var all []*model.Response
	for r, err := range seq {
		if err != nil {
			return all, err
		}
		all = append(all, r)
	}
	return all, nil
}

// Outline formats responses as texts, partial ones with a leading +, and calls as
// name().
func Outline(rs []*model.Response) []string {
	var out []string
	for _, r := range rs {
		var b strings.Builder
		if r.Partial {
			b.WriteByte('+')
		}
		b.WriteString(model.TextOf(r.Content))
		for _, c := range model.CallsOf(r.Content) {
			b.WriteString(c.Name + "()")
		}
		if r.ErrorCode != "" {
			b.WriteString("!" + r.ErrorCode)
		}
		out = append(out, b.String())
	}
	return out
}

// Mode names a test with or without streaming.
func Mode(stream bool) string {
	if stream {
		return "stream"
	}
	return "unary"
}

// Waits records requested delays without waiting.
type Waits []time.Duration

// Wait records the delay.
func (w *Waits) Wait(ctx context.Context, d time.Duration) error {
	*w = append(*w, d)
	return ctx.Err()
}

// Detail formats a response as "+role: (thought)[text] FINISH n tokens !CODE(message)".
func Detail(r *model.Response) string {
	var words []string
	if r.Content != nil {
		text := r.Content.Role + ": "
		for _, p := range r.Content.Parts {
			if p.Thought {
				text += "(" + p.Text + ")"
			} else {
				text += "[" + p.Text + "]"
			}
		}
		words = append(words, text)
	}
	if r.FinishReason != "" {
		words = append(words, string(r.FinishReason))
	}
	if r.UsageMetadata != nil {
		words = append(words, fmt.Sprint(r.UsageMetadata.TotalTokenCount, " tokens"))
	}
	if r.ErrorCode != "" {
		words = append(words, "!"+r.ErrorCode+"("+r.ErrorMessage+")")
	}
	if r.Partial {
		return "+" + strings.Join(words, " ")
	}
	return strings.Join(words, " ")
}

// ErrorText returns an error's text, or "".
func ErrorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Script returns a decoded script.
func Script(t testing.TB, src string) *provider.Script {
	t.Helper()
	n, ds := spec.Parse("demo.script.yaml", []byte(src))
	if err := ds.Err(); err != nil {
		t.Fatal(err)
	}
	s, ds := provider.DecodeScript(n)
	if err := ds.Err(); err != nil {
		t.Fatal(err)
	}
	return s
}
