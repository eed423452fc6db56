// Package httptool provides the tools that send HTTP requests: http and load_web_page.
package httptool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"agenthost/internal/toolconfig"
	"agenthost/internal/toolhttp"
	"agenthost/pkg/connection"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// Kinds lists the kind http, which a document names as a one-key map.
func Kinds() spec.Kinds[tool.Env, tool.Set] {
	return spec.Kinds[tool.Env, tool.Set]{
		spec.NewKind("http", "Calls one HTTP endpoint.", newHTTP),
	}
}

// Builtins lists load_web_page, which documents name by `name:`.
func Builtins() spec.Kinds[tool.Env, tool.Set] {
	return spec.Kinds[tool.Env, tool.Set]{
		spec.NewKind("load_web_page", "Lets the model read the text of a web page, by its URL.", newWebPage),
	}
}

type httpConfig struct {
	Tool        toolconfig.Config      `yaml:",inline"`
	Method      string                 `yaml:"method" enum:"GET|POST|PUT|PATCH|DELETE" default:"GET" doc:"The request method."`
	URL         spec.Text              `yaml:"url" required:"true" doc:"The URL; its path and query may contain {args.x}, {state.key} and {user:name?}."`
	Query       map[string]spec.Secret `yaml:"query" doc:"Additional query parameters; a list becomes repeated parameters, and an optional placeholder without a value omits the parameter."`
	Headers     map[string]spec.Secret `yaml:"headers" doc:"Request headers; an optional placeholder without a value omits the header."`
	Auth        *connection.Ref        `yaml:"auth" doc:"The connection that authorizes the requests: its name under connections in app.yaml, or the connection itself."`
	Body        *spec.Node             `yaml:"body" doc:"The request body: a map or list, sent as JSON, or a string. By default, POST, PUT and PATCH send the arguments that url and query do not use."`
	Result      spec.Expr              `yaml:"result" doc:"The result, computed from status, headers and body; default: the body."`
	Artifact    spec.Text              `yaml:"artifact" doc:"The session artifact that the response is saved as; it may contain {args.x} and {state.key}. The body is then {artifact, version, mime_type, size}. Default: only a response that is neither JSON nor text is saved, under the tool's name."`
	Timeout     spec.Duration          `yaml:"timeout" default:"30s" doc:"Maximum call duration."`
	MaxResponse spec.Size              `yaml:"max_response" default:"1MiB" doc:"Maximum size of the response."`
}

var (
	_ tool.AddressConfig = (*httpConfig)(nil)
	_ tool.StateConfig   = (*httpConfig)(nil)
	_ tool.ResultConfig  = (*httpConfig)(nil)
	_ spec.Checker       = (*httpConfig)(nil)

	_ connection.RefConfig = (*httpConfig)(nil)
)

// Advice lists other programs' names for the settings.
func (c *httpConfig) Advice() spec.Advice {
	return spec.Advice{Fields: map[string]string{
		"json": "body", "payload": "body", "request_body": "body", "data": "use body: a mapping is sent as JSON, a string as it is",
		"endpoint": "url", "uri": "url", "base_url": "write the whole address as url", "verb": "method", "http_method": "method", "header": "headers", "query_params": "query",
	}}
}

func newHTTP(_ context.Context, env tool.Env, c *httpConfig) (tool.Set, error) {
	d, err := c.Tool.DeclareTool()
	if err != nil {
		return nil, err
	}
	read := toolconfig.Compiler{Params: d.Params()}
	t := &httpTool{
		Declared:     d,
		capabilities: c.Tool.Capabilities(c.Timeout),
		method:       c.Method,
		url:          compileURL(&read, c.URL),
		query:        read.CompileTexts(c.Query),
		header:       read.CompileTexts(c.Headers),
		body:         compileBody(&read, c.Body),
		artifact:     read.CompileArtifactName(c.Artifact),
		maxResponse:  int64(c.MaxResponse),
		exchange:     toolhttp.NewExchange(env, int64(c.MaxResponse), toolconfig.SecretsOf(c.Headers, c.Query)...),
	}
	if c.Artifact.Value != "" && t.streamsSource() {
		read.AddDiagnostic(c.Artifact.Errorf(0, "tool", "artifact cannot be combined with stream: a response in events is not a file"))
	}
	read.SetConfirm(&t.capabilities, &c.Tool.Confirm, d.Declaration().Name)
	for name, text := range c.Headers {
		if !toolconfig.IsHeaderName(name) {
			read.AddDiagnostic(text.Errorf(0, "header", "invalid header name %q", name))
		}
	}
	if t.body != nil && t.method == http.MethodGet {
		read.AddDiagnostic(c.Body.Errorf("body", "a GET request cannot have a body"))
	}
	if t.result, err = toolhttp.CompileResult(c.Result); err != nil {
		read.AddDiagnostics(err)
	}
	return read.BuildSet(t)
}

// An httpTool calls one HTTP endpoint.
type httpTool struct {
	*tool.Declared
	capabilities tool.Capabilities
	exchange     *toolhttp.Exchange
	maxResponse  int64
	method       string
	url          *urlTemplate
	query        []toolconfig.NamedTemplate
	header       []toolconfig.NamedTemplate
	body         *bodyTemplate
	artifact     *toolconfig.ArtifactName
	result       *toolhttp.ResultRule
}

// Capabilities returns the document's settings.
func (t *httpTool) Capabilities() tool.Capabilities { return t.capabilities }

// Run implements [tool.Tool].
func (t *httpTool) Run(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	call, err := t.CheckCall(ctx, call)
	if err != nil {
		return nil, err
	}
	return tool.RunWithTimeout(ctx, t.Declaration().Name, t.capabilities.Timeout, func(ctx context.Context) (*tool.Result, error) {
		send := t.sendRequest
		if t.streamsSource() {
			send = t.runFirst
		}
		res, err := send(ctx, call)
		if err != nil {
			return nil, fmt.Errorf("http tool %s: %w", t.Declaration().Name, err)
		}
		return res, nil
	})
}

func (t *httpTool) sendRequest(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	req, err := t.newRequest(ctx, call)
	if err != nil {
		return nil, err
	}
	got, err := t.exchange.SendRequest(req, call)
	if err != nil {
		return nil, err
	}
	if err := got.SaveFile(ctx, call, t.artifact); err != nil {
		return nil, err
	}
	return t.buildResult(ctx, call, got)
}

func (t *httpTool) buildResult(ctx context.Context, call *tool.Call, got *toolhttp.Response) (*tool.Result, error) {
	value := got.Body
	if t.result != nil {
		var err error
		if value, err = t.result.Eval(ctx, call, got); err != nil {
			return nil, err
		}
	}
	if value == nil && t.capabilities.LongRunning {
		return nil, nil
	}
	return tool.NewResult(value), nil
}

// Addresses returns the URL that the tool calls, without its path: the host is
// fixed.
func (c *httpConfig) Addresses() []spec.Text {
	address := c.URL
	address.Value = toolhttp.ConstantHost(address.Value)
	return []spec.Text{address}
}

// Connection returns the tool's connection, or nil.
func (c *httpConfig) Connection() *connection.Ref { return c.Auth }

// Check warns about a timeout that sets no limit, and about unused parameters.
func (c *httpConfig) Check(n *spec.Node) spec.Diagnostics {
	ds := append(toolconfig.CheckTimeout(n), c.Tool.Async.CheckAsync(n, c.Tool.LongRunning, true)...)
	if c.sendsArgs() {
		return ds
	}
	return append(ds, c.Tool.CheckUnusedParams(n, c.usedArgs(n))...)
}

// sendsArgs reports whether the request body contains all arguments.
func (c *httpConfig) sendsArgs() bool {
	return c.Body == nil && slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch}, c.Method)
}

// usedArgs lists the arguments that the request's templates use.
func (c *httpConfig) usedArgs(n *spec.Node) []string {
	var u tool.StateUse
	var used []string
	for _, key := range []string{"url", "query", "headers", "body", "artifact"} {
		u.AddTexts(n.Get(key), toolconfig.IsCallName)
	}
	for _, t := range u.Texts {
		used = append(used, toolconfig.TextArgs(t.Text)...)
	}
	return used
}

// newRequest builds a call's request. Its errors name fields and placeholders, never values, which
// may be secret.
func (t *httpTool) newRequest(ctx context.Context, call *tool.Call) (*http.Request, error) {
	address, err := t.buildURL(call)
	if err != nil {
		return nil, err
	}
	body, kind, err := t.encodeBody(call)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, t.method, address, body)
	if err != nil {
		return nil, errors.New("url: invalid URL after rendering")
	}
	toolhttp.SetRequestHeaders(req, call, kind)
	return req, t.setHeaders(req, call)
}

func (t *httpTool) setHeaders(req *http.Request, call *tool.Call) error {
	for _, h := range t.header {
		v, ok, err := h.Text.RenderValue(call)
		if err != nil {
			return fmt.Errorf("header %s: %w", h.Name, err)
		}
		s := template.String(v)
		switch {
		case !ok:
			continue
		case strings.ContainsAny(s, "\r\n\x00"):
			return fmt.Errorf("header %s: the value contains a line break", h.Name)
		case strings.EqualFold(h.Name, "Host"):
			req.Host = s
		default:
			req.Header.Set(h.Name, s)
		}
	}
	return nil
}

// buildURL returns the URL with the query parameters.
func (t *httpTool) buildURL(call *tool.Call) (string, error) {
	address, err := t.url.renderURL(call)
	if err != nil {
		return "", fmt.Errorf("url: %w", err)
	}
	query := url.Values{}
	for _, q := range t.query {
		v, ok, err := q.Text.RenderValue(call)
		if err != nil {
			return "", fmt.Errorf("query %s: %w", q.Name, err)
		}
		if list, many := v.([]any); many {
			for _, item := range list {
				query.Add(q.Name, template.String(item))
			}
		} else if ok {
			query.Set(q.Name, template.String(v))
		}
	}
	return toolhttp.AppendQuery(address, query.Encode()), nil
}

// encodeBody returns the request body and its media type; both are empty if
// there is none.
func (t *httpTool) encodeBody(call *tool.Call) (io.Reader, string, error) {
	var value any
	switch {
	case t.body != nil:
		v, ok, err := t.body.render(call)
		if err != nil {
			return nil, "", fmt.Errorf("body: %w", err)
		}
		if !ok {
			return nil, "", nil
		}
		if s, ok := v.(string); ok && t.body.text != nil {
			return strings.NewReader(s), "text/plain; charset=utf-8", nil
		}
		value = v
	case t.method == http.MethodGet, t.method == http.MethodDelete:
		return nil, "", nil
	default:
		value = t.unusedArgs(call.Args)
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, "", fmt.Errorf("body: %w", err)
	}
	return bytes.NewReader(raw), "application/json", nil
}

// unusedArgs returns the arguments that neither the URL nor the query uses.
func (t *httpTool) unusedArgs(args map[string]any) map[string]any {
	rest := maps.Clone(args)
	if rest == nil {
		rest = map[string]any{}
	}
	drop := func(refs []template.Ref) {
		for _, ref := range refs {
			if path, ok := strings.CutPrefix(ref.Name, "args."); ok {
				name, _, _ := strings.Cut(path, ".")
				delete(rest, name)
			}
		}
	}
	drop(t.url.placeholders())
	for _, q := range t.query {
		drop(q.Text.Placeholders())
	}
	return rest
}

// ResultExprs returns the result's expression.
func (c *httpConfig) ResultExprs() []tool.StateExpr {
	return []tool.StateExpr{{Expr: c.Result, Env: toolhttp.ResponseEnv()}}
}

// StateUse returns the request's templates.
func (c *httpConfig) StateUse(n *spec.Node) tool.StateUse {
	var u tool.StateUse
	u.AddPaths(c.URL, c.Tool.IsCallName)
	for _, key := range []string{"query", "headers", "body", "artifact"} {
		u.AddTexts(n.Get(key), c.Tool.IsCallName)
	}
	if c.Tool.Confirm.When.Pos == (spec.Pos{}) {
		return u
	}
	if d, err := c.Tool.DeclareTool(); err == nil { // else already reported
		u.AddConfirm(c.Tool.Confirm.When, toolconfig.CallEnv(d.Params()))
	}
	return u
}
