package bucketstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"agenthost/internal/limit"
)

const (
	noS3Keys = "no credentials for S3: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for the host"

	defaultS3Region = "us-east-1"
	// credentialsTimeout limits one retrieval with its retries, and credentialsTryTimeout each of
	// its HTTP requests.
	credentialsTimeout    = 5 * time.Second
	credentialsTryTimeout = 3 * time.Second
	// credentialsWindow is how long before they expire credentials are refreshed,
	// and credentialsRetry the pause after a refresh that failed.
	credentialsWindow = 5 * time.Minute
	credentialsRetry  = 30 * time.Second
	maxReasonRunes    = 300
)

// loadS3Credentials returns the credentials and the region for an s3: URL. With Options.Lookup they
// are the keys in that environment. Otherwise they come from the AWS SDK's default chain. It reads
// the process's environment and the shared configuration files, and sends requests to STS, the
// container credentials endpoint or the instance metadata service. It fails within
// credentialsTimeout if there are no valid credentials.
func loadS3Credentials(ctx context.Context, region string, o *Options) (aws.CredentialsProvider, string, error) {
	if o.Lookup != nil {
		id, secret := o.readVariable("AWS_ACCESS_KEY_ID"), o.readVariable("AWS_SECRET_ACCESS_KEY")
		if id == "" || secret == "" {
			return nil, "", errors.New(noS3Keys)
		}
		region = cmp.Or(region, o.readVariable("AWS_REGION"), o.readVariable("AWS_DEFAULT_REGION"), defaultS3Region)
		return credentials.NewStaticCredentialsProvider(id, secret, o.readVariable("AWS_SESSION_TOKEN")), region, nil
	}
	client := newCredentialsClient(o)
	limited, cancel := context.WithTimeout(ctx, credentialsTimeout)
	defer cancel()
	settings, err := config.LoadDefaultConfig(limited,
		config.WithRegion(region), config.WithDefaultRegion(defaultS3Region), config.WithHTTPClient(client), config.WithLogger(logging.Nop{}),
		config.WithEndpointCredentialOptions(func(e *endpointcreds.Options) { e.HTTPClient = client }),
		config.WithCredentialsCacheOptions(func(c *aws.CredentialsCacheOptions) { c.ExpiryWindow = credentialsWindow }),
		config.WithAPIOptions([]func(*middleware.Stack) error{limitCredentialsResponse}))
	if err != nil {
		source := credentialsSource{"the AWS configuration", "check the AWS_… variables, ~/.aws/config and ~/.aws/credentials"}
		return nil, "", &credentialsError{source, describeCredentialsError(err)}
	}
	provider := aws.NewCredentialsCache(newChainCredentials(settings.Credentials))
	_, err = retrieveS3Credentials(ctx, provider)
	return provider, settings.Region, err
}

// newCredentialsClient returns the client for requests for credentials. It sends no request to an
// IP address through a proxy: those are the machine's metadata services.
func newCredentialsClient(o *Options) aws.HTTPClient {
	if o.HTTP != nil {
		c := *o.HTTP
		c.Timeout = credentialsTryTimeout
		c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		return &c
	}
	return awshttp.NewBuildableClient().WithTimeout(credentialsTryTimeout).WithTransportOptions(func(t *http.Transport) {
		t.Proxy = func(r *http.Request) (*url.URL, error) {
			if _, err := netip.ParseAddr(r.URL.Hostname()); err == nil {
				return nil, nil
			}
			return http.ProxyFromEnvironment(r)
		}
	})
}

// limitCredentialsResponse limits the bytes that the SDK reads from a response.
func limitCredentialsResponse(stack *middleware.Stack) error {
	return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("LimitResponse",
		func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
			out, meta, err := next.HandleDeserialize(ctx, in)
			if res, ok := out.RawResponse.(*smithyhttp.Response); ok && res.Body != nil {
				res.Body = http.MaxBytesReader(nil, res.Body, int64(limit.Credentials.Bytes))
			}
			return out, meta, err
		}), middleware.After)
}

// A chainCredentials provider adds a time limit, a check and explained errors to
// the provider that the SDK has chosen. When a refresh fails, the former
// credentials are used until they expire. It is called by one goroutine at a time,
// by an [aws.CredentialsCache].
type chainCredentials struct {
	chosen aws.CredentialsProvider
	source credentialsSource
	// expires is when the last credentials expire.
	expires time.Time
}

// A credentialsSource describes where credentials come from and how to repair it.
type credentialsSource struct{ name, hint string }

func newChainCredentials(chosen aws.CredentialsProvider) *chainCredentials {
	c := &chainCredentials{chosen: chosen, source: credentialsSource{"the AWS profile", "check AWS_PROFILE, ~/.aws/config and ~/.aws/credentials"}}
	cache, ok := chosen.(*aws.CredentialsCache)
	if !ok {
		return c
	}
	for _, s := range cache.ProviderSources() {
		switch s {
		case aws.CredentialSourceEnvVarsSTSWebIDToken, aws.CredentialSourceProfileSTSWebIDToken:
			c.source = credentialsSource{
				"the web identity token", "check AWS_ROLE_ARN, AWS_WEB_IDENTITY_TOKEN_FILE and that the role trusts this service account",
			}
		case aws.CredentialSourceHTTP:
			c.source = credentialsSource{
				"the container credentials endpoint", "check the service account's Pod Identity association, or the task role",
			}
		case aws.CredentialSourceIMDS:
			c.source = credentialsSource{
				"the environment, the AWS profile or instance metadata",
				"set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE for the host, or attach a role to its pod or instance",
			}
		}
	}
	return c
}

// Retrieve implements [aws.CredentialsProvider].
func (c *chainCredentials) Retrieve(ctx context.Context) (aws.Credentials, error) {
	ctx, cancel := context.WithTimeout(ctx, credentialsTimeout)
	defer cancel()
	got, err := c.chosen.Retrieve(ctx)
	if err == nil && !got.HasKeys() {
		err = errors.New("the response has no keys")
	}
	if err != nil {
		return aws.Credentials{}, &credentialsError{c.source, describeCredentialsError(err)}
	}
	if c.expires = got.Expires; got.CanExpire {
		c.expires = got.Expires.Add(credentialsWindow) // the inner cache has subtracted it
	}
	return got, nil
}

// HandleFailToRefresh implements [aws.HandleFailRefreshCredentialsCacheStrategy]. It reads the
// process's clock, as the SDK does.
func (c *chainCredentials) HandleFailToRefresh(_ context.Context, former aws.Credentials, err error) (aws.Credentials, error) {
	left := time.Until(c.expires)
	if !former.HasKeys() || left <= 0 {
		return aws.Credentials{}, err
	}
	former.Expires = time.Now().Add(min(left, credentialsRetry))
	return former, nil
}

// A credentialsError is a failed credentials retrieval.
type credentialsError struct {
	source credentialsSource
	reason string
}

// Error returns the source, the reason and the hint.
func (e *credentialsError) Error() string {
	return fmt.Sprintf("no credentials for S3 from %s: %s; hint: %s", e.source.name, e.reason, e.source.hint)
}

// retrieveS3Credentials returns valid credentials. It reports a failure without
// the context that the SDK adds.
func retrieveS3Credentials(ctx context.Context, p aws.CredentialsProvider) (aws.Credentials, error) {
	got, err := p.Retrieve(ctx)
	var failed *credentialsError
	if errors.As(err, &failed) {
		return got, failed
	}
	return got, err
}

// describeCredentialsError returns an SDK error's reason in one line, without the context that the
// SDK adds: the service's code and message if it gave them.
func describeCredentialsError(err error) string {
	var refused smithy.APIError
	var malformed *smithy.DeserializationError
	var lost *url.Error
	var operation *smithy.OperationError
	text := strings.TrimPrefix(err.Error(), "failed to refresh cached credentials, ")
	switch {
	case errors.As(err, &refused):
		text = strings.Trim(refused.ErrorCode()+": "+refused.ErrorMessage(), ": ")
	case errors.Is(err, context.DeadlineExceeded):
		text = "no response within " + credentialsTimeout.String()
	case errors.As(err, &malformed):
		text = "invalid response: " + malformed.Err.Error()
	case errors.As(err, &lost):
		text = lost.Err.Error()
	case errors.As(err, &operation):
		text = operation.Err.Error()
	}
	line := []rune(strings.Join(strings.Fields(text), " "))
	return string(line[:min(len(line), maxReasonRunes)])
}
