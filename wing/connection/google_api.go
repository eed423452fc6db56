package connection

import (
	"agenthost/pkg/connection"
	"agenthost/pkg/spec"
)

// Google's endpoints for users (developers.google.com/identity/protocols/oauth2/web-server).
const (
	googleAuthorizationURL = "https://accounts.google.com/o/oauth2/v2/auth"
	googleTokenURL         = "https://oauth2.googleapis.com/token"
)

// Google implements [connection.Google].
type Google struct{}

// NewUsers implements [connection.Google].
func (Google) NewUsers(id, secret spec.Secret, scopes []string) connection.Config {
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

// googleHosts are the hosts that Google APIs have.
const googleHosts = "*.googleapis.com"

// NewAccount implements [connection.Google].
func (Google) NewAccount(key spec.Secret, scopes []string) (connection.Config, spec.Diagnostics) {
	hosts := key.Text
	hosts.Value = googleHosts
	c := &Config{Google: &googleConfig{ServiceAccount: key, Scopes: scopes}, Hosts: []spec.Text{hosts}}
	return c, c.Google.checkValues(nil, c.Hosts)
}
