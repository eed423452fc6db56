package runtime

import (
	"context"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

type contextFilterConfig struct {
	Keep   int          `yaml:"num_invocations_to_keep" doc:"Number of latest turns that models see, including the current one. Default: all."`
	Custom filterConfig `yaml:"custom_filter" doc:"Filter of those contents: an expression that is true for the contents to keep and can use content (role, text, calls, responses), index, count, state, user, session, invocation and agent; or {name: NAME}, a function of the program."`
}

// DecodeSpec requires at least one setting, and keeps at least the current turn.
func (c *contextFilterConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	ds := spec.Decode(n, c)
	switch at := n.Get("num_invocations_to_keep"); {
	case ds.HasErrors():
	case at.IsNull() && n.Get("custom_filter").IsNull():
		ds = append(ds, n.Errorf("required", "context_filter requires num_invocations_to_keep or custom_filter"))
	case !at.IsNull() && c.Keep < 1:
		ds = append(ds, at.Errorf("value", "num_invocations_to_keep must be 1 or more; 1 is the current turn"))
	}
	return ds
}

// Bind resolves the function that custom_filter names.
func (c *contextFilterConfig) Bind(f *Functions) spec.Diagnostics { return c.Custom.bindFilter(f) }

// newContextFilter returns ADK's ContextFilterPlugin.
func newContextFilter(_ context.Context, _ PluginEnv, c *contextFilterConfig) (*Plugin, error) {
	filter := func(ctx context.Context, m *CallbackContext, req *model.Request) (_ *model.Response, err error) {
		if c.Keep > 0 {
			req.Contents = lastTurns(req.Contents, c.Keep)
		}
		req.Contents, err = c.Custom.applyFilter(ctx, m, req.Contents)
		return nil, err
	}
	return &Plugin{Name: "context_filter", Callbacks: Callbacks{BeforeModel: []BeforeModelFunc{filter}}}, nil
}

// lastTurns returns the contents of the last n turns. Consecutive user contents
// are one turn; responses to calls do not start a turn.
func lastTurns(contents []*genai.Content, n int) []*genai.Content {
	for i := len(contents) - 1; i > 0; i-- {
		if !isUserTurn(contents[i]) || isUserTurn(contents[i-1]) {
			continue
		}
		if n--; n == 0 {
			return contents[includeCalls(contents, i):]
		}
	}
	return contents
}

func isUserTurn(c *genai.Content) bool {
	return c.Role == genai.RoleUser && len(model.ResponsesOf(c)) == 0
}

// includeCalls moves the start of the kept contents back to the calls whose
// responses are kept: a request never contains a response without its call.
func includeCalls(contents []*genai.Content, from int) int {
	open := map[string]bool{}
	for i := len(contents) - 1; i >= 0; i-- {
		if i < from && len(open) == 0 {
			return i + 1
		}
		for _, r := range model.ResponsesOf(contents[i]) {
			open[r.ID] = true
		}
		for _, c := range model.CallsOf(contents[i]) {
			delete(open, c.ID)
		}
	}
	return 0
}
