// Package a2apush stores where A2A's clients receive notifications about their tasks, and sends these.
//
// A task's configurations are one row in the host's grant store, encrypted with the host's keys. So they are
// the same on every replica, and in no session, event or log:
//
//	Configs.Add    ──▶ the row, unless the address is not granted
//	Configs.Claim  ──▶ marks a state as sent; one replica gets the configurations
//	Sender.Send    ──▶ the requests, each with a timeout, and again after a failure
package a2apush

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"agenthost/pkg/connection"
)

// Limits for configurations.
const (
	// MaxConfigs limits a task's configurations.
	MaxConfigs = 8
	// MaxURL limits an address in bytes.
	MaxURL         = 2048
	maxID          = 256
	maxToken       = 1024
	maxScheme      = 64
	maxCredentials = 4096
)

// A Config is where a client receives a task's notifications. It has credentials: it belongs neither
// into logs nor into the answers to other users.
type Config struct {
	ID  string `json:"id"`
	URL string `json:"url"`
	// Token is in a header of each notification, which the client checks; empty for none.
	Token string `json:"token,omitempty"`
	// Scheme and Credentials are in the Authorization header; without credentials there is none.
	Scheme      string `json:"scheme,omitempty"`
	Credentials string `json:"credentials,omitempty"`
	// IsOld marks a client that speaks A2A 0.3.
	IsOld bool `json:"old,omitempty"`
	// Sent is the last state that was claimed, and SentEvent the number of its last event.
	Sent      string `json:"sent,omitempty"`
	SentEvent int64  `json:"sent_event,omitempty"`
}

// Check reports a configuration that exceeds a limit, or whose address is not one of the granted hosts.
func (c *Config) Check(hosts []connection.HostPattern) error {
	for _, field := range []struct {
		name, value string
		limit       int
	}{{"id", c.ID, maxID}, {"url", c.URL, MaxURL}, {"token", c.Token, maxToken}, {"authentication.scheme", c.Scheme, maxScheme}, {"authentication.credentials", c.Credentials, maxCredentials}} {
		if len(field.value) > field.limit {
			return fmt.Errorf("%s exceeds the limit of %d bytes", field.name, field.limit)
		}
		if strings.ContainsFunc(field.value, func(r rune) bool { return r < ' ' || r > '~' }) {
			return fmt.Errorf("%s must have printable ASCII characters only", field.name)
		}
	}
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || !connection.IsSecure(u):
		return errors.New("url must be an https:// address without a user and a fragment")
	case !slices.ContainsFunc(hosts, func(p connection.HostPattern) bool { return p.MatchesURL(u) }):
		return errors.New("url must have a host that the agent's push_hosts grant")
	case c.Credentials != "" && (c.Scheme == "" || strings.ContainsAny(c.Scheme, ` ",;:=/()<>@[]?{}\`)):
		return errors.New("authentication.scheme must be an HTTP authentication scheme, such as Bearer")
	}
	return nil
}
