package tool

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"

	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

var validHeader = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

type httpConfig struct {
	Tool        toolConfig             `yaml:",inline"`
	Method      string                 `yaml:"method" enum:"GET|POST|PUT|PATCH|DELETE" default:"GET" doc:"The request method."`
	URL         spec.Text              `yaml:"url" required:"true" doc:"The address; its path and query may hold {args.x}, {state.key} and {user:name?}."`
	Query       map[string]spec.Secret `yaml:"query" doc:"More query parameters; a list becomes many, an optional one without value is left out."`
	Headers     map[string]spec.Secret `yaml:"headers" doc:"Request headers; an optional one without value is left out."`
	Body        *spec.Node             `yaml:"body" doc:"The request body: a map or list sent as JSON, or a text. If nothing is said, POST, PUT and PATCH send the arguments that url and query do not use."`
	Result      spec.Expr              `yaml:"result" doc:"The answer, computed from status, headers and body; if nothing is said, the body."`
	Timeout     spec.Duration          `yaml:"timeout" default:"30s" doc:"How long a call may take."`
	MaxResponse spec.Size              `yaml:"max_response" default:"1MiB" doc:"The largest answer that is read."`
}

func newHTTP(_ context.Context, env Env, c *httpConfig) (Set, error) {
	d, err := c.Tool.declare()
	if err != nil {
		return nil, err
	}
	read := compiler{params: d.params}
	t := &httpTool{
		declared: d,
		traits:   c.Tool.traits(c.Timeout),
		client:   guardRedirects(env.HTTP),
		method:   c.Method,
		url:      read.url(c.URL),
		query:    read.texts(c.Query),
		header:   read.texts(c.Headers),
		body:     read.body(c.Body),
		limit:    int64(c.MaxResponse),
	}
	t.hide = hiding(c.Headers, c.Query)
	t.traits.Confirm = read.confirm(c.Tool.Confirm, d.decl.Name)
	for name, text := range c.Headers {
		if !validHeader.MatchString(name) {
			read.add(text.Errorf(0, "header", "%q cannot be the name of a header", name))
		}
	}
	if t.body != nil && t.method == http.MethodGet {
		read.add(c.Body.Errorf("body", "a GET request has no body"))
	}
	if c.Result.Value != "" {
		t.result = read.expr(c.Result, replyEnv())
	}
	return read.set(t)
}

// An httpTool asks one endpoint.
type httpTool struct {
	*declared
	traits Capabilities
	client *http.Client
	method string
	url    *urlText
	query  []namedText
	header []namedText
	body   *bodyText
	result *template.Expr
	limit  int64
	// hide takes the secrets out of what is answered.
	hide *spec.Veil
}

// Capabilities says what the document asked for.
func (t *httpTool) Capabilities() Capabilities { return t.traits }

// Run implements [Tool].
func (t *httpTool) Run(ctx context.Context, call *Call) (*Result, error) {
	call, err := t.checked(call)
	if err != nil {
		return nil, err
	}
	return within(ctx, t.decl.Name, t.traits.Timeout, func(ctx context.Context) (*Result, error) {
		res, err := t.ask(ctx, call)
		if err != nil {
			return nil, fmt.Errorf("http tool %s: %w", t.decl.Name, err)
		}
		return res, nil
	})
}

func (t *httpTool) ask(ctx context.Context, call *Call) (*Result, error) {
	req, err := t.request(ctx, call)
	if err != nil {
		return nil, err
	}
	resp, err := t.client.Do(req)
	if err != nil {
		return nil, t.hidden(withoutURL(err))
	}
	defer resp.Body.Close()
	got, err := readReply(resp, t.limit, t.hide)
	if err != nil {
		return nil, t.hidden(err)
	}
	return t.answer(ctx, call, got)
}

// hidden is an error without the secrets that a service has put into it: into its
// status, or into an address that nobody can read.
func (t *httpTool) hidden(err error) error {
	if text := t.hide.Text(err.Error()); text != err.Error() {
		return errors.New(text)
	}
	return err
}

func (t *httpTool) answer(ctx context.Context, call *Call, got *reply) (*Result, error) {
	value := got.body
	if t.result != nil {
		var err error
		vars := got.vars()
		vars[template.BudgetName] = call.Expressions
		if value, err = t.result.Eval(ctx, vars); err != nil {
			return nil, fmt.Errorf("result: %w", err)
		}
	}
	if value == nil && t.traits.LongRunning {
		return nil, nil
	}
	return answer(value), nil
}

// withoutURL keeps the address, which may hold a key, out of the error.
func withoutURL(err error) error {
	if ue := (*url.Error)(nil); errors.As(err, &ue) {
		return ue.Err
	}
	return err
}

// guardRedirects returns a copy of the client that follows a redirect to
// another host only with GET, and without any header of the document.
func guardRedirects(c *http.Client) *http.Client {
	if c == nil {
		c = http.DefaultClient
	}
	guarded, next := *c, c.CheckRedirect
	guarded.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if leavesHost(req, via) {
			if req.Method != http.MethodGet {
				return http.ErrUseLastResponse
			}
			req.Header = http.Header{"User-Agent": {userAgent}}
		}
		if next != nil {
			return next(req, via)
		}
		if len(via) >= 10 {
			return errors.New("more than 10 redirects")
		}
		return nil
	}
	return &guarded
}

// leavesHost says whether any hop so far left the first host, or its TLS: a
// foreign host must not be able to send the credentials back home either.
func leavesHost(req *http.Request, via []*http.Request) bool {
	home := via[0].URL
	for _, r := range append(via[1:len(via):len(via)], req) {
		if r.URL.Host != home.Host || home.Scheme == "https" && r.URL.Scheme != "https" {
			return true
		}
	}
	return false
}
