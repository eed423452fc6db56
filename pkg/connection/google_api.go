package connection

import "agenthost/pkg/spec"

// The endpoints of Google for users (developers.google.com/identity/protocols/oauth2/web-server).
const (
	googleAuthorizationURL = "https://accounts.google.com/o/oauth2/v2/auth"
	googleTokenURL         = "https://oauth2.googleapis.com/token"
)

// NewGoogleUsers returns the connection of an OAuth client of Google, which each user
// authorizes. Its tokens go only to APIs of Google.
func NewGoogleUsers(id, secret spec.Secret, scopes []string) *Config {
	at := func(value string) spec.Text {
		text := id.Text
		text.Value = value
		return text
	}
	return &Config{
		OAuth2: &oauthConfig{
			Grant: grantAuthorizationCode, AuthorizationURL: at(googleAuthorizationURL), TokenURL: at(googleTokenURL), TokenAuth: "client_secret_post",
			ClientID: id, ClientSecret: secret, Scopes: scopes,
		},
		Hosts: []spec.Text{at(googleHosts)},
	}
}

// googleHosts are the hosts of APIs of Google.
const googleHosts = "*.googleapis.com"

// NewGoogleAccount returns the connection of a service account by its key, or of the account of
// the host if there is no key. Its tokens go only to APIs of Google. The errors do not show the
// key.
func NewGoogleAccount(key spec.Secret, scopes []string) (*Config, spec.Diagnostics) {
	hosts := key.Text
	hosts.Value = googleHosts
	c := &Config{Google: &googleConfig{ServiceAccount: key, Scopes: scopes}, Hosts: []spec.Text{hosts}}
	return c, c.Google.checkValues(nil, c.Hosts)
}
