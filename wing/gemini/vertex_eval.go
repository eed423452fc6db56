package gemini

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"time"

	"agenthost/internal/baseurl"
	"agenthost/internal/limit"
	"agenthost/internal/modelapi"
	"agenthost/internal/modelcall"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
)

// VertexEvaluatorOptions configure a [VertexEvaluator].
type VertexEvaluatorOptions struct {
	// Lookup reads a host environment variable; nil is [os.LookupEnv]. App holds the variables from
	// the app's .env, used if Lookup has none. An address that the app chose does not get the
	// host's token.
	Lookup func(name string) (string, bool)
	App    map[string]string
	// HTTP is the client; nil is [http.DefaultClient].
	HTTP *http.Client
	// Token returns the bearer token; nil means Google's application default credentials.
	Token func(context.Context) (string, error)
	// Wait waits before a retry, or returns ctx's error; nil uses a timer.
	Wait func(ctx context.Context, d time.Duration) error
}

// A VertexEvaluator calls Vertex AI's evaluation service, evaluateInstances in its API v1beta1
// (google-cloud-aiplatform, vertexai/_genai/evals.py). It is safe for concurrent use.
type VertexEvaluator struct {
	opts                    VertexEvaluatorOptions
	base, project, location modelapi.Setting
	quota                   string
}

// The limits for a call.
const (
	evaluationAttempts = 5
)

// retriedEvaluations are the statuses that the SDK retries.
var retriedEvaluations = []int{408, 429, 499, 500, 502, 503, 504}

// NewVertexEvaluator returns the service of the project and the region in GOOGLE_CLOUD_PROJECT and
// GOOGLE_CLOUD_LOCATION, or nil without these variables or without credentials.
// GOOGLE_VERTEX_BASE_URL is another address: its proxy may add the credentials. It does not call
// the service.
func NewVertexEvaluator(ctx context.Context, opts *VertexEvaluatorOptions) (*VertexEvaluator, error) {
	v := modelapi.NewVariables(opts.Lookup, opts.App)
	e := &VertexEvaluator{opts: *opts, project: v.FirstSet("GOOGLE_CLOUD_PROJECT"), location: v.FirstSet("GOOGLE_CLOUD_LOCATION", "GOOGLE_CLOUD_REGION")}
	if e.project.Value == "" || e.location.Value == "" {
		return nil, nil
	}
	e.base = v.ChooseBase("", "GOOGLE_VERTEX_BASE_URL", "")
	isOwn := e.base.Value != ""
	if !isOwn {
		usual, err := modelapi.VertexURL(e.location.Value)
		if err != nil {
			return nil, err
		}
		e.base.Value = usual
	} else if problem := modelapi.BadBaseURL(e.base.Value); problem != "" {
		return nil, fmt.Errorf("GOOGLE_VERTEX_BASE_URL: %s", problem)
	}
	if e.opts.HTTP == nil {
		e.opts.HTTP = http.DefaultClient
	}
	if e.opts.Wait == nil {
		e.opts.Wait = modelcall.WaitFor
	}
	if e.opts.Token == nil && !e.base.OfApp {
		token, quota, err := modelapi.DetectGoogleCredentials(ctx)
		if err != nil && !isOwn {
			return nil, nil
		}
		e.opts.Token, e.quota = token, quota
	}
	return e, nil
}

// OpenVertexEvaluator returns the service with an app's variables; nil as [NewVertexEvaluator].
func OpenVertexEvaluator(ctx context.Context, env provider.Env) (*VertexEvaluator, error) {
	return NewVertexEvaluator(ctx, &VertexEvaluatorOptions{Lookup: env.Lookup, App: env.App})
}

// Endpoint returns the service's address.
func (e *VertexEvaluator) Endpoint() provider.Endpoint {
	return provider.Endpoint{URL: e.base.Value, OfHost: !e.base.OfApp && !e.project.OfApp && !e.location.OfApp}
}

// SetHTTP sets the client before the first call.
func (e *VertexEvaluator) SetHTTP(client *http.Client) { e.opts.HTTP = client }

// Evaluate sends a request body, and returns the response body. It attempts a call 5 times after
// errors that may be temporary, 2 s to 16 s apart, or as long as the service requests.
func (e *VertexEvaluator) Evaluate(ctx context.Context, body []byte) ([]byte, error) {
	for attempt := 1; ; attempt++ {
		answer, err := e.attemptCall(ctx, body)
		if err == nil {
			return answer, nil
		}
		failed, ok := errors.AsType[*model.Error](err)
		if !ok || attempt == evaluationAttempts || !slices.Contains(retriedEvaluations, failed.Code) {
			return nil, e.explainError(err)
		}
		delay := time.Second << attempt
		delay += rand.N(time.Second)
		if asked, ok := errors.AsType[modelcall.RequestedWait](failed.Err); ok {
			if delay = time.Duration(asked); delay > maxEvaluationWait {
				return nil, e.explainError(err)
			}
		}
		if err := e.opts.Wait(ctx, delay); err != nil {
			return nil, fmt.Errorf("waiting to retry Vertex AI's evaluation service: %w", err)
		}
	}
}

// maxEvaluationWait limits the delay that the service may request.
const maxEvaluationWait = time.Minute

func (e *VertexEvaluator) attemptCall(ctx context.Context, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit.Evaluation.Time, fmt.Errorf("the Vertex AI evaluation service did not answer within %s", limit.Evaluation.Time))
	defer cancel()
	at := baseurl.Join(e.base.Value, fmt.Sprintf("/v1beta1/projects/%s/locations/%s:evaluateInstances", url.PathEscape(e.project.Value), url.PathEscape(e.location.Value)))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	token := ""
	if e.opts.Token != nil {
		if token, err = e.opts.Token(ctx); err != nil {
			return nil, &model.Error{Message: "no token for Vertex AI: " + err.Error(), Err: err}
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if e.quota != "" {
		req.Header.Set("X-Goog-User-Project", e.quota)
	}
	resp, err := e.opts.HTTP.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, &model.Error{Code: http.StatusServiceUnavailable, Status: "UNAVAILABLE", Message: "no response: " + err.Error(), Err: err}
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, errorFromGemini(resp, spec.NewRedactor(token))
	}
	answer, err := limit.Evaluation.ReadAll(resp.Body)
	_, tooLarge := errors.AsType[*limit.Error](err)
	switch {
	case tooLarge:
		return nil, err
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, &model.Error{Code: http.StatusServiceUnavailable, Status: "UNAVAILABLE", Message: "the response ended early: " + err.Error(), Err: err}
	}
	return answer, nil
}

// explainError adds what to do.
func (e *VertexEvaluator) explainError(err error) error {
	failed, ok := errors.AsType[*model.Error](err)
	if !ok {
		return err
	}
	hint := ""
	switch failed.Code {
	case http.StatusUnauthorized:
		hint = "; sign in with gcloud auth application-default login, or set GOOGLE_APPLICATION_CREDENTIALS for the host"
	case http.StatusForbidden:
		hint = fmt.Sprintf("; enable aiplatform.googleapis.com in project %s, and grant the credentials roles/aiplatform.user", e.project.Value)
	case http.StatusNotFound:
		hint = fmt.Sprintf("; region %s or project %s may not have the service: set GOOGLE_CLOUD_LOCATION to another region, such as us-central1", e.location.Value, e.project.Value)
	case http.StatusTooManyRequests:
		hint = "; raise the service's quota, or run fewer cases at once with --parallel"
	}
	if failed.Code == 0 {
		return fmt.Errorf("the Vertex AI evaluation service failed: %s", failed.Message)
	}
	return fmt.Errorf("the Vertex AI evaluation service failed: %d %s: %s%s; a judge model scores instead with judge_model_options or --judge", failed.Code, failed.Status, failed.Message, hint)
}
