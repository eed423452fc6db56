package connection

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/auth/credentials"
	"cloud.google.com/go/auth/credentials/idtoken"

	"agenthost/internal/limit"
	"agenthost/pkg/connection"
	"agenthost/pkg/spec"
)

// googleConfig is a Google Cloud account: a service account by its key, or the account that the
// host itself has.
type googleConfig struct {
	ServiceAccount spec.Secret `yaml:"service_account" secret:"true" doc:"A service account's key, in JSON, such as ${secret:ROBOT}. Default: the host's account (application default credentials), which the host policy must allow."`
	Scopes         []string    `yaml:"scopes" doc:"Scopes for access tokens, such as https://www.googleapis.com/auth/spreadsheets."`
	Audience       string      `yaml:"audience" doc:"The audience for ID tokens, instead of scopes: a Cloud Run service's URL."`

	// key is ServiceAccount's.
	key *serviceAccountKey
}

// A serviceAccountKey is what a key in JSON has (cloud.google.com/iam/docs/keys-create-delete).
type serviceAccountKey struct {
	Type         string `json:"type"`
	Email        string `json:"client_email"`
	PrivateKey   string `json:"private_key"`
	PrivateKeyID string `json:"private_key_id"`
	TokenURL     string `json:"token_uri"`
}

// checkValues reads the key, and requires hosts if the account is the host's. Its errors do not
// show the key. Key types other than a service account's can name programs and files on the host.
func (c *googleConfig) checkValues(n *spec.Node, hosts []spec.Text) spec.Diagnostics {
	if (len(c.Scopes) == 0) == (c.Audience == "") {
		return spec.Diagnostics{n.Errorf("required", "google requires exactly one of scopes and audience")}
	}
	if u, err := url.Parse(c.Audience); c.Audience != "" && (err != nil || u.Scheme != "https" || u.Host == "") {
		return spec.Diagnostics{n.Get("audience").Errorf("url", "audience must be a URL that starts with https://, got %q", c.Audience)}
	}
	if c.isOfHost() {
		return c.checkHosts(n, hosts)
	}
	problem := ""
	if c.key == nil {
		c.key = &serviceAccountKey{}
		if json.Unmarshal([]byte(c.ServiceAccount.Reveal()), c.key) != nil {
			problem = "service_account must be a service account key in JSON"
		}
	}
	switch key := c.key; {
	case problem != "":
	case key.Type != "service_account":
		problem = "service_account must be a key with the type service_account"
	case key.Email == "" || key.PrivateKey == "":
		problem = "service_account requires client_email and private_key in its JSON"
	case key.TokenURL == "":
		key.TokenURL = "https://oauth2.googleapis.com/token"
	case checkServerURL(key.TokenURL) != nil:
		problem = "token_uri of service_account must start with https://"
	}
	if problem != "" {
		c.key = nil
		return spec.Diagnostics{withoutSource(c.ServiceAccount.Errorf(0, "value", "%s", problem))}
	}
	return nil
}

// isOfHost reports whether the account is the host's.
func (c *googleConfig) isOfHost() bool { return c.ServiceAccount.Pos.Line == 0 }

// checkHosts requires Google hosts for the host's access tokens, and the audience for its ID
// tokens, so that no app can send them elsewhere.
func (c *googleConfig) checkHosts(n *spec.Node, hosts []spec.Text) spec.Diagnostics {
	if len(hosts) == 0 {
		return spec.Diagnostics{n.Errorf("required", "hosts is required for the host's account").
			WithHint("list the services' hosts, such as hosts: [sheets.googleapis.com]")}
	}
	for i := range hosts {
		p := connection.ParseHostPattern(hosts[i].Value)
		if c.Audience == "" && !strings.HasSuffix("."+p.Host, ".googleapis.com") {
			return spec.Diagnostics{hosts[i].Errorf(0, "value", "the host's access tokens go only to *.googleapis.com, got %q", hosts[i].Value)}
		}
		if u, err := url.Parse(c.Audience); c.Audience != "" && (err != nil || p.Subdomains || !p.MatchesURL(u)) {
			return spec.Diagnostics{hosts[i].Errorf(0, "value", "the host's ID tokens go only to their audience, got %q", hosts[i].Value)}
		}
	}
	return nil
}

// tokenAddress returns the address that issues tokens, if the document decides about it.
func (c *googleConfig) tokenAddress() (spec.Text, bool) {
	if c.key == nil {
		return spec.Text{}, false
	}
	at := c.ServiceAccount.Text
	at.Value = c.key.TokenURL
	return at, true
}

func (c *googleConfig) listSettings() []string {
	return append([]string{"google", c.ServiceAccount.Reveal(), c.Audience}, c.Scopes...)
}

// newGoogleTokens returns the source of an account's tokens. All users share them.
func newGoogleTokens(c *googleConfig, env connection.Env) *sharedToken {
	var provider auth.TokenProvider
	issue := func(ctx context.Context) (*issuedToken, error) {
		ctx, cancel := context.WithTimeout(ctx, limit.TokenAnswer.Time)
		defer cancel()
		if provider == nil {
			found, err := c.openProvider(env)
			if err != nil {
				return nil, err
			}
			provider = found
		}
		t, err := provider.Token(ctx)
		if err != nil {
			return nil, c.describeError(err)
		}
		return &issuedToken{bearerCredential(t.Value), t.Expiry}, nil
	}
	return newSharedToken(env, issue)
}

// openProvider returns what issues tokens. Requests with an app key use the app's client, those for
// the host account use the library's.
func (c *googleConfig) openProvider(env connection.Env) (auth.TokenProvider, error) {
	switch {
	case c.key != nil:
		opts := &auth.Options2LO{
			Email: c.key.Email, PrivateKey: []byte(c.key.PrivateKey), PrivateKeyID: c.key.PrivateKeyID, TokenURL: c.key.TokenURL,
			Scopes: c.Scopes, Client: withoutRedirects(env.HTTP),
		}
		if c.Audience != "" {
			opts.UseIDToken, opts.PrivateClaims = true, map[string]any{"target_audience": c.Audience}
		}
		provider, err := auth.New2LOTokenProvider(opts)
		if err != nil {
			return nil, errors.New("the service account's private_key is invalid")
		}
		return provider, nil
	case c.Audience != "":
		found, err := idtoken.NewCredentials(&idtoken.Options{Audience: c.Audience})
		if err != nil {
			return nil, errNoAccount
		}
		return found, nil
	}
	found, err := credentials.DetectDefault(&credentials.DetectOptions{Scopes: c.Scopes})
	if err != nil {
		return nil, errNoAccount
	}
	return found, nil
}

var errNoAccount = errors.New("the host has no Google account (application default credentials)")

// describeError returns an error without the server's response: it may repeat the request.
func (c *googleConfig) describeError(err error) error {
	if failed := (*auth.Error)(nil); errors.As(err, &failed) && failed.Response != nil {
		return &tokenError{text: "requesting a token: " + failed.Response.Status}
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return err
	}
	return errors.New("requesting a Google token failed")
}
