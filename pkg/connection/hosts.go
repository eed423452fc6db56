package connection

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// A HostPattern is a host, with an optional port, or all subdomains of a host.
type HostPattern struct {
	Host, Port string
	Subdomains bool
}

// ParseHostPattern parses a pattern such as api.example.com, api.example.com:8443 or
// *.example.com.
func ParseHostPattern(text string) HostPattern {
	text = strings.ToLower(text)
	rest, subdomains := strings.CutPrefix(text, "*.")
	host, port, err := net.SplitHostPort(rest)
	if err != nil {
		host, port = rest, ""
	}
	return HostPattern{strings.Trim(strings.TrimSuffix(host, "."), "[]"), port, subdomains}
}

// IsHostPattern reports whether a string has the form of [ParseHostPattern].
func IsHostPattern(text string) bool {
	p := ParseHostPattern(text)
	u, err := url.Parse("https://" + strings.TrimPrefix(text, "*."))
	return p.Host != "" && err == nil && u.Path == "" && u.RawQuery == "" && u.User == nil && !strings.ContainsAny(text, "/?#@") &&
		!strings.Contains(p.Host, "*")
}

// MatchesURL reports whether a URL has the host. A pattern without a port matches the scheme's
// default port.
func (p HostPattern) MatchesURL(u *url.URL) bool {
	host, port := hostOf(u), u.Port()
	if port == "" {
		port = defaultPort(u.Scheme)
	}
	if port != p.Port && (p.Port != "" || port != defaultPort(u.Scheme)) {
		return false
	}
	if p.Subdomains {
		return strings.HasSuffix(host, "."+p.Host)
	}
	return host == p.Host
}

func hostOf(u *url.URL) string { return strings.TrimSuffix(strings.ToLower(u.Hostname()), ".") }

func defaultPort(scheme string) string {
	if scheme == "http" {
		return "80"
	}
	return "443"
}

// HostOf returns an address's host, with its port if it has one, or "".
func HostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// ErrInsecure reports a URL without TLS.
var ErrInsecure = errors.New("credentials require https")

// A HostError reports a host that the connection does not have.
type HostError struct{ Host string }

// Error names the host.
func (e *HostError) Error() string { return "no credentials for host " + e.Host }

// CheckAddress reports whether a connection may send credentials to an address: it
// returns nil, [ErrInsecure] or a [*HostError].
func (c *Connection) CheckAddress(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil // reported by the tool
	}
	return c.checkURL(u)
}

func (c *Connection) checkURL(u *url.URL) error {
	switch {
	case !IsSecure(u):
		return ErrInsecure
	case !slices.ContainsFunc(c.hosts, func(p HostPattern) bool { return p.MatchesURL(u) }):
		return &HostError{u.Host}
	}
	return nil
}

func (c *Connection) checkTarget(u *url.URL) error {
	if err := c.checkURL(u); err != nil {
		return fmt.Errorf("connection %s: %w", c.name, err)
	}
	return nil
}

// IsSecure reports whether a URL may receive credentials: it has TLS, or a loopback address.
func IsSecure(u *url.URL) bool { return u.Scheme == "https" || u.Scheme == "http" && IsLoopback(u) }

// IsLoopback reports whether a URL's host is a loopback address.
func IsLoopback(u *url.URL) bool {
	host := hostOf(u)
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}
