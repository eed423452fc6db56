package vertexstore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/auth/credentials"

	"agenthost/internal/limit"
)

// The limits for requests to the service.
const (
	maxAttempts     = 5
	firstBackoff    = 200 * time.Millisecond
	maxBackoff      = 10 * time.Second
	uploadTimeout   = 5 * time.Minute // the service indexes the file before it answers
	operationLimit  = time.Minute
	operationPause  = 500 * time.Millisecond
	cloudScope      = "https://www.googleapis.com/auth/cloud-platform"
	noLogin         = "no credentials for Vertex AI: set GOOGLE_APPLICATION_CREDENTIALS for the host, or run gcloud auth application-default login"
	maxPages        = 100_000
	maxOperationLen = 1000
)

// Options configure a store. Nil and the zero value are valid.
type Options struct {
	// HTTP is the client for the service; nil uses the store's client.
	HTTP *http.Client
	// Lookup replaces the process's environment: GOOGLE_CLOUD_PROJECT, GOOGLE_CLOUD_LOCATION,
	// GOOGLE_API_KEY, GOOGLE_GENAI_USE_ENTERPRISE, GOOGLE_GENAI_USE_VERTEXAI and
	// GOOGLE_VERTEX_BASE_URL.
	Lookup func(name string) (string, bool)
	// Token returns an access token. Nil uses the application default credentials, or the express
	// mode API key.
	Token func(ctx context.Context) (string, error)
}

func (o *Options) lookupVariable(name string) string {
	find := o.Lookup
	if find == nil {
		find = os.LookupEnv
	}
	value, _ := find(name)
	return value
}

// A client sends requests to the service. It is safe for concurrent use.
type client struct {
	*resource
	http *http.Client
	// sign authenticates a request.
	sign func(ctx context.Context, r *http.Request) error
}

// newClient parses a URL after its scheme and finds the credentials. It sends no request
// to the service.
func newClient(kind *resourceKind, rawURL string, o *Options) (*client, error) {
	r, err := parseResource(kind, rawURL, o.lookupVariable)
	if err != nil {
		return nil, err
	}
	c := &client{resource: r, http: o.HTTP}
	if c.http == nil {
		c.http = &http.Client{Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 32,
			IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second,
		}}
	}
	own := *c.http
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.http = &own
	return c, c.chooseSigner(o)
}

func (c *client) chooseSigner(o *Options) error {
	switch {
	case c.key != "":
		c.sign = func(_ context.Context, r *http.Request) error {
			r.Header.Set("X-Goog-Api-Key", c.key)
			return nil
		}
		return nil
	case o.Token != nil:
		c.sign = func(ctx context.Context, r *http.Request) error {
			token, err := o.Token(ctx)
			r.Header.Set("Authorization", "Bearer "+token)
			return err
		}
		return nil
	case strings.HasPrefix(c.base, "http://"):
		// A token never leaves the process unencrypted.
		c.sign = func(context.Context, *http.Request) error { return nil }
		return nil
	}
	found, err := credentials.DetectDefault(&credentials.DetectOptions{Scopes: []string{cloudScope}, Client: o.HTTP})
	if err != nil && c.customBase {
		c.sign = func(context.Context, *http.Request) error { return nil } // a proxy may add them
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", noLogin, err)
	}
	c.sign = func(ctx context.Context, r *http.Request) error {
		token, err := found.Token(ctx)
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "Bearer "+token.Value)
		if quota, err := found.QuotaProjectID(ctx); err == nil && quota != "" {
			r.Header.Set("X-Goog-User-Project", quota)
		}
		return nil
	}
	return nil
}

// A call is a request to the service.
type call struct {
	method, path string
	query        url.Values
	body         any // encoded as JSON; nil sends no body
	// upload is sent instead of a body, with its content type.
	upload      []byte
	contentType string
	// once sends the request again only if the service has certainly not executed it.
	once bool
}

// sendCall carries out a call and decodes the response into the value. It retries temporary
// failures within the attempt and time bounds.
func (c *client) sendCall(ctx context.Context, a *call, into any) error {
	body := a.upload
	if a.body != nil {
		var err error
		if body, err = json.Marshal(a.body); err != nil {
			return err
		}
	}
	for attempt := 1; ; attempt++ {
		wait, err := c.sendOnce(ctx, a, body, into)
		if err == nil || attempt == maxAttempts || ctx.Err() != nil || !a.mayRetry(err) {
			return err
		}
		if waitErr := sleepContext(ctx, max(wait, nextBackoff(attempt))); waitErr != nil {
			return err
		}
	}
}

func (a *call) mayRetry(err error) bool {
	if hasCode(err, http.StatusTooManyRequests) {
		return true
	}
	if a.once {
		return false
	}
	if _, ok := errors.AsType[*connectionError](err); ok {
		return true
	}
	e, ok := errors.AsType[*serviceError](err)
	return ok && isRetryable(e.code)
}

// nextBackoff returns the pause after an attempt, with jitter.
func nextBackoff(attempt int) time.Duration {
	d := min(firstBackoff<<(attempt-1), maxBackoff)
	return d/2 + rand.N(d/2+1)
}

// sendOnce sends a request once. It returns the pause that the service requests.
func (c *client) sendOnce(ctx context.Context, a *call, body []byte, into any) (wait time.Duration, err error) {
	parent := ctx
	timeout := limit.VertexAnswer.Time
	if a.upload != nil {
		timeout = uploadTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	address := c.base + "/v1beta1/" + a.path
	if a.upload != nil {
		address = c.base + "/upload/v1beta1/" + a.path
	}
	if len(a.query) > 0 {
		address += "?" + a.query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, a.method, address, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", cmp.Or(a.contentType, "application/json"))
	if a.upload != nil {
		r.Header.Set("X-Goog-Upload-Protocol", "multipart")
	}
	if err := c.sign(ctx, r); err != nil {
		return 0, cmp.Or[error](parent.Err(), &credentialError{err})
	}
	res, err := c.http.Do(r)
	if err != nil {
		return 0, cmp.Or[error](parent.Err(), &connectionError{withoutURL(err)})
	}
	defer res.Body.Close()
	text, err := limit.VertexAnswer.ReadAll(res.Body)
	if _, tooLarge := errors.AsType[*limit.Error](err); tooLarge {
		return 0, err
	} else if err != nil {
		return 0, cmp.Or[error](parent.Err(), &connectionError{err})
	}
	if failure := c.decodeError(res.StatusCode, text); failure != nil {
		return parseRetryAfter(res.Header), failure
	}
	if into == nil {
		return 0, nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return 0, fmt.Errorf("the response from Vertex AI is not the expected JSON: %w", err)
	}
	return 0, nil
}

// withoutURL removes the address from an HTTP client error: it contains user ids.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

func parseRetryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 || seconds > int(maxBackoff/time.Second) {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

func sleepContext(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// listPages reads all list pages. each gets a page's body.
func (c *client) listPages(ctx context.Context, path string, query url.Values, each func(page json.RawMessage) (more bool, err error)) error {
	for range maxPages {
		var page json.RawMessage
		if err := c.sendCall(ctx, &call{method: http.MethodGet, path: path, query: query}, &page); err != nil {
			return err
		}
		var token struct{ NextPageToken string }
		if err := json.Unmarshal(page, &token); err != nil {
			return err
		}
		if more, err := each(page); err != nil || !more || token.NextPageToken == "" {
			return err
		}
		if query == nil {
			query = url.Values{}
		}
		query.Set("pageToken", token.NextPageToken)
	}
	return fmt.Errorf("%s has more than %d pages", path, maxPages)
}

// An operation is a long-running operation.
type operation struct {
	Name  string
	Done  bool
	Error *struct {
		Code    int
		Message string
	}
}

// waitOperation polls an operation until it is done, at most for operationLimit.
func (c *client) waitOperation(ctx context.Context, op *operation) error {
	parent := ctx
	ctx, cancel := context.WithTimeout(ctx, operationLimit)
	defer cancel()
	for {
		switch {
		case op.Error != nil && op.Error.Code != 0:
			return &serviceError{code: http.StatusInternalServerError, status: fmt.Sprintf("operation failed with code %d", op.Error.Code), message: op.Error.Message}
		case op.Done:
			return nil
		case !isOperationName(op.Name):
			return fmt.Errorf("operation has the invalid name %q", op.Name)
		}
		name := op.Name
		err := sleepContext(ctx, operationPause)
		if err == nil {
			*op = operation{}
			err = c.sendCall(ctx, &call{method: http.MethodGet, path: name}, op)
			op.Name = cmp.Or(op.Name, name)
		}
		if ctx.Err() != nil && parent.Err() == nil {
			return &connectionError{fmt.Errorf("operation %s is not done after %s", name, operationLimit)}
		}
		if err != nil {
			return err
		}
	}
}

// isOperationName reports whether a name from a response may be in an address.
func isOperationName(name string) bool {
	return len(name) <= maxOperationLen && strings.Contains(name, "operations/") && !strings.Contains(name, "..") && !strings.ContainsAny(name, "?#%\\ ")
}
