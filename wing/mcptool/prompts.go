package mcptool

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

var (
	_ tool.PromptSource = (*serverSet)(nil)
	_ tool.PromptSource = offlineSet{}
)

// LoadPrompt returns the texts in all messages of a prompt. Its arguments are the request's, and
// session state keys with the names of further arguments (adk-python
// agents/mcp_instruction_provider.py, which takes all keys). A prompt is read once in an
// invocation, or as often as list_cache requires.
func (s *serverSet) LoadPrompt(ctx context.Context, call *tool.Call, req *tool.PromptRequest) (string, error) {
	l, release, err := s.acquireLink(ctx, call)
	if err != nil {
		return "", err
	}
	defer release()
	limit, stop := s.server.withConnectTimeout(ctx)
	defer stop()
	text, err := s.loadPrompt(limit, l, call, req)
	if err != nil {
		return "", l.describeError(limit, err)
	}
	return text, nil
}

func (s *serverSet) loadPrompt(ctx context.Context, l *link, call *tool.Call, req *tool.PromptRequest) (string, error) {
	prompt, err := s.findPrompt(ctx, l, call.Origin.InvocationID, req.Name)
	if err != nil {
		return "", err
	}
	args, err := collectPromptArgs(prompt, call, req)
	if err != nil {
		return "", err
	}
	scope, age := s.cacheKey(call.Origin.InvocationID)
	key, err := json.Marshal([]any{scope, req.Name, args})
	if err != nil {
		return "", err
	}
	return l.lists.promptTexts.getList(string(key), s.now(), age, func() (string, time.Duration, error) {
		var res *mcp.GetPromptResult
		err := l.withSession(ctx, true, func(session *mcp.ClientSession) (err error) {
			res, err = session.GetPrompt(ctx, &mcp.GetPromptParams{Name: req.Name, Arguments: args})
			return err
		})
		if err != nil {
			return "", 0, err
		}
		text, err := s.joinPrompt(l, req.Name, res)
		return text, 0, err
	})
}

// findPrompt returns the entry for a prompt in the server's list.
func (s *serverSet) findPrompt(ctx context.Context, l *link, invocation, name string) (*mcp.Prompt, error) {
	key, age := s.cacheKey(invocation)
	listed, err := l.lists.prompts.getList(key, s.now(), age, func() (listed []*mcp.Prompt, ttl time.Duration, err error) {
		err = l.withSession(ctx, true, func(session *mcp.ClientSession) error {
			listed, ttl, err = listPages[mcp.Prompt](l, "prompts", func(cursor string) ([]byte, error) {
				res, err := session.ListPrompts(ctx, &mcp.ListPromptsParams{Cursor: cursor})
				if err != nil {
					return nil, err
				}
				return unwrapResult(res.Meta), nil
			})
			return err
		})
		return listed, ttl, err
	})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, p := range listed {
		if p != nil && p.Name == name {
			return p, nil
		}
		if p != nil && len(names) < maxNamesShown {
			names = append(names, cutText(cleanText(p.Name), maxNameShown))
		}
	}
	if len(names) == 0 {
		names = []string{"none"}
	}
	return nil, limitError{fmt.Sprintf("unknown prompt %q; the server's prompts are: %s", name, strings.Join(names, ", "))}
}

// collectPromptArgs returns a prompt's arguments.
func collectPromptArgs(prompt *mcp.Prompt, call *tool.Call, req *tool.PromptRequest) (map[string]string, error) {
	args := maps.Clone(req.Args)
	if args == nil {
		args = map[string]string{}
	}
	var declared []string
	for _, a := range prompt.Arguments {
		if a == nil {
			continue
		}
		declared = append(declared, a.Name)
		if _, ok := args[a.Name]; ok {
			continue
		}
		v, ok := any(nil), false
		if isSharedKey(a.Name) {
			v, ok = call.State.Get(a.Name)
		}
		switch {
		case ok && v != nil:
			args[a.Name] = template.String(v)
		case a.Required:
			return nil, limitError{fmt.Sprintf("prompt %q requires the argument %q: add it to args, or set the state key with this name", req.Name, cutText(cleanText(a.Name), maxNameShown))}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(req.Args)) {
		if !slices.Contains(declared, name) {
			return nil, limitError{fmt.Sprintf("prompt %q has no argument %q; its arguments are: %s", req.Name, name, cutText(cleanText(strings.Join(declared, ", ")), maxErrorText))}
		}
	}
	return args, nil
}

// isSharedKey reports whether a server may read a state key by naming an argument after it.
// Keys with a scope, and ADK's own ones, can be credentials: the app must write them in args.
func isSharedKey(name string) bool {
	return !strings.Contains(name, ":") && !strings.HasPrefix(name, "_adk") && !strings.HasPrefix(name, "adk_")
}

// joinPrompt returns a prompt's text.
func (s *serverSet) joinPrompt(l *link, name string, res *mcp.GetPromptResult) (string, error) {
	text, err := decodePrompt(unwrapResult(res.Meta))
	switch limit := int(s.server.offer.MaxResult); {
	case err != nil:
		return "", limitError{fmt.Sprintf("prompt %q cannot be read: %s", name, err)}
	case text == "":
		return "", limitError{fmt.Sprintf("prompt %q has no text", name)}
	case len(text) > limit:
		return "", limitError{fmt.Sprintf("prompt %q of %d bytes exceeds the limit of %d (max_result)", name, len(text), limit)}
	}
	return l.redactor.RedactString(text), nil
}

// LoadPrompt returns text that names the prompt: app tests call no server.
func (s offlineSet) LoadPrompt(_ context.Context, _ *tool.Call, req *tool.PromptRequest) (string, error) {
	return fmt.Sprintf("(prompt %s from %s: tests do not call it)", req.Name, s.server.displayName()), nil
}
