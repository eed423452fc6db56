package connection

import (
	"errors"
	"net/url"
	"regexp"

	"agenthost/pkg/connection"
	"agenthost/pkg/spec"
)

var (
	headerName  = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
	headerValue = regexp.MustCompile(`^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$`)
	cookieValue = regexp.MustCompile(`^[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]+$`)
)

// withoutSource returns a diagnostic that does not show its line: the line has a secret.
func withoutSource(d spec.Diagnostic) spec.Diagnostic {
	d.Source = ""
	return d
}

// checkServerURL rejects addresses without TLS, except for loopback addresses.
func checkServerURL(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "":
		return errors.New("the address of the authorization server must be a URL with a host")
	case !connection.IsSecure(u):
		return errors.New("the address of the authorization server must start with https://")
	}
	return nil
}
