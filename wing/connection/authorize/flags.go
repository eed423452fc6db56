// Package authorize provides the flags for commands whose apps have users' connections, and lets
// the person at a terminal authorize them.
package authorize

import (
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"

	"github.com/spf13/pflag"

	"agenthost/internal/command"
	"agenthost/internal/policy"
	"agenthost/pkg/connection"
	connections "agenthost/wing/connection"
)

// GrantFlags are the flags for connections that users authorize.
type GrantFlags struct {
	PublicURL, key string
	// LocalURL is the address of a host that only its own machine reaches. It serves instead of an
	// empty PublicURL where no other client receives the answers.
	LocalURL string
}

// RegisterFlags adds the flags for a server.
func (f *GrantFlags) RegisterFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.PublicURL, "public-url", "", "URL at which browsers reach this host; authorization servers send them to PUBLIC_URL"+connections.CallbackPath+" (default: the client receives the answer)")
	f.registerKey(flags)
}

func (f *GrantFlags) registerKey(flags *pflag.FlagSet) {
	flags.StringVar(&f.key, "credentials-key", "", "file with the keys that encrypt users' tokens, or env:NAME for a variable: 32 bytes in base64, one key for each line; the first encrypts")
}

// ReadKeys reads the keys. Apps may not read them. Without a flag there are none, except for
// sessions in memory.
func (f *GrantFlags) ReadKeys(reserved *policy.Host, sessionDB string) (*connections.Keys, error) {
	if err := f.checkPublicURL(); err != nil {
		return nil, err
	}
	if f.key == "" {
		if strings.HasPrefix(sessionDB, "memory:") {
			return connections.NewRandomKeys()
		}
		return nil, nil
	}
	text, err := command.ReadKey("--credentials-key", f.key, reserved)
	if err != nil {
		return nil, err
	}
	keys, err := connections.ParseKeys(text)
	if err != nil {
		return nil, command.FailWithf("--credentials-key: %w", err)
	}
	reserved.Values = append(reserved.Values, strings.Fields(text)...)
	return keys, nil
}

func (f *GrantFlags) checkPublicURL() error {
	if f.PublicURL == "" {
		return nil
	}
	u, err := url.Parse(f.PublicURL)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		u.Scheme != "https" && (u.Scheme != "http" || !isLoopbackName(u.Hostname())) {
		return fmt.Errorf("--public-url must be an https URL without a query, such as https://agents.example.com, got %q", f.PublicURL)
	}
	return nil
}

// PublicHost returns --public-url's host, with its port if it has one, or "".
func (f *GrantFlags) PublicHost() string {
	u, err := url.Parse(f.PublicURL)
	if err != nil {
		return ""
	}
	return u.Host
}

func isLoopbackName(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// NewGrants returns users' grants in a store.
func (f *GrantFlags) NewGrants(st connection.GrantStore, keys *connections.Keys, logger *slog.Logger) *connections.Grants {
	opts := connections.GrantOptions{Store: st, Keys: keys, Logger: logger}
	if f.LocalURL != "" {
		opts.LocalURL = f.LocalURL + connections.CallbackPath
	}
	if f.PublicURL != "" {
		opts.RedirectURL = strings.TrimRight(f.PublicURL, "/") + connections.CallbackPath
	}
	return connections.NewGrants(opts)
}
