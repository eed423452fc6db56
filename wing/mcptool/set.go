package mcptool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/genai"

	"agenthost/internal/jsonschema"
	"agenthost/internal/toolconfig"
	connections "agenthost/pkg/connection"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
)

// newSet returns the set without connecting.
func (s *server) newSet(env tool.Env) (tool.Set, error) {
	confirm, err := toolconfig.CompileConfirmRule(s.offer.Confirm.Expr, anyArgsDeclaration("mcp"), annotationEnv())
	if err != nil {
		return nil, err
	}
	headers, err := toolconfig.CompileHeaders(s.headers)
	if err != nil {
		return nil, err
	}
	set := &serverSet{
		server: s, confirm: confirm, headers: headers, env: env, logger: env.Logger,
		secrets:      slices.Clip(toolconfig.SecretsOf(s.headers, s.env)),
		capabilities: tool.Capabilities{Timeout: s.callTimeout, FailOnError: s.offer.OnError == "fail"},
		tools:        map[string]*serverTool{}, now: time.Now, wait: waitDuration,
	}
	if s.offer.EnableTasks { // each request has the timeout, and the task another one
		set.capabilities.Timeout, set.capabilities.StoresInterim = 0, true
	}
	set.redactor = spec.NewRedactor(set.secrets...)
	set.links = &linkPool{
		newLink: set.newLink, now: func() time.Time { return set.now() }, logger: env.Logger,
		keepsLinks: headers.IsFixed() && !env.Connection.IsPerUser(), links: map[headerKey]*link{},
	}
	s.offer.Async.SetCapabilities(&set.capabilities)
	if env.Offline {
		return offlineSet{set}, nil
	}
	return set, nil
}

// Dynamic reports that the tools are unknown before a run lists them.
func (s *serverSet) Dynamic() bool { return true }

// Tools lists the tools that the server has now, outside any session.
func (s *serverSet) Tools(ctx context.Context) ([]tool.Tool, error) {
	return s.ListTools(ctx, &tool.Call{State: emptyState{}})
}

// ListTools lists the tools that the server has now for a session, sorted by name as in
// ADK.
func (s *serverSet) ListTools(ctx context.Context, call *tool.Call) ([]tool.Tool, error) {
	if !s.env.Connection.IsPerUser() {
		return s.listTools(ctx, call)
	}
	tools, err := s.listTools(ctx, call)
	if err != nil && !errors.As(err, new(*connections.ConsentError)) {
		return nil, err
	}
	return append(tools, s.newAuthorizeTool()), nil
}

// FindTool returns one of the server's tools. Other than ListTools, it fails while the user has not
// authorized the server's connection.
func (s *serverSet) FindTool(ctx context.Context, call *tool.Call, name string) (tool.Tool, error) {
	tools, err := s.listTools(ctx, call)
	if err != nil {
		return nil, err
	}
	found, err := tool.SelectTool(tools, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.server.displayName(), err)
	}
	return found, nil
}

// listTools lists the server's tools.
func (s *serverSet) listTools(ctx context.Context, call *tool.Call) ([]tool.Tool, error) {
	l, release, err := s.acquireLink(ctx, call)
	if err != nil {
		return nil, err
	}
	defer release()
	limit, stop := s.server.withConnectTimeout(ctx)
	defer stop()
	listed, err := l.lists.tools.getList(sharedKey, s.now(), s.server.listCache, func() (listed []*mcp.Tool, ttl time.Duration, err error) {
		err = l.withSession(limit, true, func(session *mcp.ClientSession) error {
			listed, ttl, err = l.listTools(limit, session)
			return err
		})
		return listed, ttl, err
	})
	if err != nil {
		return nil, l.describeError(limit, err)
	}
	tools, err := s.selectTools(ctx, listed)
	if err != nil || !s.server.resources.enabled {
		return tools, err
	}
	resources, err := s.newResourceTool()
	if err != nil {
		return nil, err
	}
	return append(tools, resources), nil
}

// Close closes the connections, and stops the server program.
func (s *serverSet) Close() error {
	s.links.closeAll()
	return nil
}

// selectTools returns the listed tools that pass tool_filter.
func (s *serverSet) selectTools(ctx context.Context, listed []*mcp.Tool) ([]tool.Tool, error) {
	listed = slices.SortedStableFunc(slices.Values(listed), func(a, b *mcp.Tool) int { return cmp.Compare(a.Name, b.Name) })
	filter := s.server.offer.ToolFilter
	var tools []tool.Tool
	kept := map[string]*serverTool{}
	for _, t := range listed {
		if len(filter) > 0 && !slices.Contains(filter, t.Name) || kept[t.Name] != nil {
			continue
		}
		made, err := s.reuseTool(ctx, t)
		if err != nil {
			s.logger.WarnContext(ctx, "mcp tool skipped", "server", s.server.displayName(), "tool", cutText(t.Name, maxNameShown), "error", err)
			continue
		}
		kept[t.Name] = made
		if tools = append(tools, made); len(tools) > maxTools {
			return nil, fmt.Errorf("%s has %d tools, and the limit is %d: choose them with tool_filter", s.server.displayName(), len(listed), maxTools)
		}
	}
	s.addTools(kept)
	if len(tools) == 0 && len(filter) > 0 {
		return nil, fmt.Errorf("%s has none of the tools in tool_filter; its tools are: %s", s.server.displayName(), joinNames(listed))
	}
	return tools, nil
}

// maxNameShown and maxNamesShown bound a server's names in messages.
const (
	maxNameShown  = 128
	maxNamesShown = 50
)

// joinNames lists tool names for a message.
func joinNames(listed []*mcp.Tool) string {
	var names []string
	for i, t := range listed {
		if i == maxNamesShown {
			names = append(names, fmt.Sprintf("and %d more", len(listed)-i))
			break
		}
		names = append(names, cutText(cleanText(t.Name), maxNameShown))
	}
	return strings.Join(names, ", ")
}

// maxCompiled bounds all sessions' compiled tools.
const maxCompiled = 2 * maxTools

// addTools adds compiled tools for the next list. Sessions may have different tools.
func (s *serverSet) addTools(tools map[string]*serverTool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.tools)+len(tools) > maxCompiled {
		s.tools = tools
		return
	}
	maps.Copy(s.tools, tools)
}

// reuseTool returns the tool for a list entry, reusing an unchanged one: compiling its schema is
// expensive.
func (s *serverSet) reuseTool(ctx context.Context, listed *mcp.Tool) (*serverTool, error) {
	raw, err := json.Marshal(listed)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	known := s.tools[listed.Name]
	s.mu.Unlock()
	if known != nil && known.source == string(raw) {
		return known, nil
	}
	name := s.server.prefixedName(listed.Name)
	reserved := []string{ // ADK's own function names, which no server may provide
		"adk_request_confirmation", "adk_request_credential", tool.RequestInput, "adk_framework",
		"transfer_to_agent", "set_model_response", "finish_task", loadResourceName,
	}
	if slices.Contains(reserved, name) {
		return nil, fmt.Errorf("the name %s belongs to agenthost; set tool_name_prefix to use the tool", name)
	}
	schema, err := readInputSchema(listed.InputSchema)
	if err != nil {
		return nil, err
	}
	if repaired, ignored := jsonschema.Repair(schema); len(ignored) > 0 {
		schema = repaired
		s.logger.WarnContext(ctx, "mcp tool has an invalid schema, keywords are ignored", "server", s.server.displayName(),
			"tool", cutText(cleanText(listed.Name), maxNameShown), "keywords", cutText(cleanText(strings.Join(ignored, ", ")), maxErrorText))
	}
	paramHeaders, err := readParamHeaders(schema)
	if err != nil {
		return nil, err
	}
	d, err := declare.Tool(name, fenceText(listed.Description, maxToolDescription), schema)
	if err != nil {
		return nil, err
	}
	d.LeaveDefaults()
	t := &serverTool{Declared: d, set: s, name: listed.Name, source: string(raw), hints: readAnnotations(listed), paramHeaders: paramHeaders, capabilities: s.capabilities}
	if s.confirm != nil {
		t.capabilities.Confirm = s.confirm.With(t.hints.exprVars(listed.Name))
	}
	return t, nil
}

// readInputSchema returns a tool's parameter schema. It must be an object.
func readInputSchema(listed any) (map[string]any, error) {
	if listed == nil {
		return nil, nil
	}
	schema, ok := listed.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("inputSchema must be an object, got %T", listed)
	}
	raw, err := json.Marshal(schema)
	if err != nil {
		return nil, err
	}
	if len(raw) > maxToolSchema {
		return nil, fmt.Errorf("inputSchema exceeds the limit of %d KiB", maxToolSchema>>10)
	}
	return schema, nil
}

// emptyState is the state outside any session.
type emptyState struct{}

func (emptyState) Get(string) (any, bool)              { return nil, false }
func (emptyState) Set(string, any)                     {}
func (emptyState) Update(...session.StateUpdate) error { return nil }
func (emptyState) All() map[string]any                 { return map[string]any{} }

// An offlineSet connects to no server: it has the tools that the document names, and they accept
// any arguments.
type offlineSet struct{ *serverSet }

// Tools returns tool_filter's tools.
func (s offlineSet) Tools(context.Context) ([]tool.Tool, error) {
	var tools []tool.Tool
	for _, name := range s.server.offer.ToolFilter {
		tools = append(tools, s.newTool(s.server.prefixedName(name), name))
	}
	if s.server.resources.enabled {
		decl := anyArgsDeclaration(s.server.prefixedName(loadResourceName))
		tools = append(tools, offlineTool{decl, s.capabilities})
	}
	if len(tools) == 0 {
		return nil, fmt.Errorf("%s is not called in tests: list its tools in tool_filter, and set their responses under tools", s.server.displayName())
	}
	return tools, nil
}

// newTool returns a tool by its name for models, and its name on the server.
func (s offlineSet) newTool(name, onServer string) offlineTool {
	capabilities := s.capabilities
	if s.confirm != nil {
		capabilities.Confirm = s.confirm.With(readAnnotations(&mcp.Tool{}).exprVars(onServer))
	}
	return offlineTool{anyArgsDeclaration(name), capabilities}
}

// FindTool returns a tool with the name, without tool_filter any.
func (s offlineSet) FindTool(ctx context.Context, _ *tool.Call, name string) (tool.Tool, error) {
	if len(s.server.offer.ToolFilter) == 0 {
		return s.newTool(name, strings.TrimPrefix(name, s.server.prefixedName(""))), nil
	}
	tools, err := s.Tools(ctx)
	if err != nil {
		return nil, err
	}
	return tool.SelectTool(tools, name)
}

// ListTools returns tool_filter's tools.
func (s offlineSet) ListTools(ctx context.Context, _ *tool.Call) ([]tool.Tool, error) {
	return s.Tools(ctx)
}

// anyArgsDeclaration declares a tool with unknown parameters.
func anyArgsDeclaration(name string) *genai.FunctionDeclaration {
	schema := map[string]any{"type": "object", "properties": map[string]any{}, "additionalProperties": true}
	return &genai.FunctionDeclaration{Name: name, Description: "A tool from an MCP server.", ParametersJsonSchema: schema}
}

type offlineTool struct {
	decl         *genai.FunctionDeclaration
	capabilities tool.Capabilities
}

// Declaration implements [Tool].
func (t offlineTool) Declaration() *genai.FunctionDeclaration { return t.decl }

// Capabilities returns the document's settings.
func (t offlineTool) Capabilities() tool.Capabilities { return t.capabilities }

// Run fails: tests must define the tool's response.
func (t offlineTool) Run(context.Context, *tool.Call) (*tool.Result, error) {
	return nil, &tool.EndError{Err: fmt.Errorf("tests call no mcp server: set a response for the tool with tools: {%s: {return: {…}}}", t.decl.Name)}
}
