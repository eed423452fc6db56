package policy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"syscall"
	"time"
)

// A Guard stands before the connections of one app. Many goroutines may use it.
type Guard struct {
	policy  *Policy
	app     string
	resolve *net.Resolver

	mu      sync.RWMutex
	named   map[string]bool // host:port that the app's documents name
	proxies map[string]bool // host:port that the host's environment names
}

// Guard returns the guard of an app.
func (p *Policy) Guard(app string) *Guard {
	return &Guard{policy: p, app: app, named: map[string]bool{}, proxies: map[string]bool{}}
}

// A Refused is an address that no grant lets an app reach.
type Refused struct {
	App string
	// Target is the host, and the port that is not the usual one, as a grant
	// names them. The address behind a name is not told: an app's user need not
	// know it.
	Target string
}

// Error says what is refused, and the line that would grant it.
func (e *Refused) Error() string {
	return fmt.Sprintf("%s is a private address, which the host does not let app %s reach; a grant in policy.yaml does: %s", e.Target, e.App, e.Line())
}

// Line is the line of policy.yaml that would grant it, under grants.
func (e *Refused) Line() string {
	return fmt.Sprintf("- {apps: [%s], network: [%q]}", e.App, e.Target)
}

// Check looks at an address that a document of the app names, as far as it can
// be judged without asking a resolver. It is nil, or a [*Refused]. A loopback
// address that is named is let through by a host without a policy.
func (g *Guard) Check(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil // that is no address, which others tell
	}
	host, port := canonical(u.Hostname()), portOf(u)
	addr, literal := ParseAddr(host)
	local := localName(host)
	if local {
		addr, literal = netip.AddrFrom4([4]byte{127, 0, 0, 1}), true
	}
	if g.policy == nil && literal && (local || addr.IsLoopback()) {
		g.mu.Lock()
		g.named[net.JoinHostPort(host, port)] = true
		g.mu.Unlock()
		return nil
	}
	if !literal || !Private(addr) || g.policy.allows(g.app, host, port, addr) {
		return nil
	}
	return g.refused(host, port)
}

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// Trust lets the app reach an address that the host's own environment names.
func (g *Guard) Trust(address string) {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.proxies[net.JoinHostPort(canonical(u.Hostname()), portOf(u))] = true
	}
}

func (g *Guard) refused(host, port string) *Refused {
	target := net.JoinHostPort(host, port)
	if port == "80" || port == "443" {
		target = host
	}
	return &Refused{App: g.app, Target: target}
}

// Transport makes connections that go only where the app may reach: each
// address is looked at when it is resolved, just before the connection is made,
// and so is that of each redirect.
func (g *Guard) Transport() *http.Transport {
	return &http.Transport{
		DialContext: g.dial, Proxy: g.proxy, ForceAttemptHTTP2: true, MaxIdleConns: 100,
		IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second, ExpectContinueTimeout: time.Second,
	}
}

// proxy finds the proxy of the host's environment. The proxy resolves names, so
// that only addresses which are written out can be refused.
func (g *Guard) proxy(req *http.Request) (*url.URL, error) {
	proxy, err := http.ProxyFromEnvironment(req)
	if proxy == nil || err != nil {
		return proxy, err
	}
	g.Trust(proxy.String())
	host, port := canonical(req.URL.Hostname()), portOf(req.URL)
	addr, literal := ParseAddr(host)
	if literal && Private(addr) && !g.lets(host, port, addr) {
		return nil, g.refused(host, port)
	}
	return proxy, nil
}

func (g *Guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	name, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	host := canonical(name)
	d := &net.Dialer{Timeout: 30 * time.Second, Resolver: g.resolve, Control: func(_, resolved string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(resolved)
		if err != nil || Private(at.Addr()) && !g.lets(host, port, plain(at.Addr())) {
			return g.refused(host, port)
		}
		return nil
	}}
	conn, err := d.DialContext(ctx, network, address)
	if refused := (*Refused)(nil); errors.As(err, &refused) {
		return nil, refused // without the address that the dialer adds
	}
	return conn, err
}

// lets says whether a private address may be reached by the name of a host.
func (g *Guard) lets(host, port string, addr netip.Addr) bool {
	key := net.JoinHostPort(host, port)
	g.mu.RLock()
	known := g.named[key] && addr.IsLoopback() || g.proxies[key]
	g.mu.RUnlock()
	return known || g.policy.allows(g.app, host, port, addr)
}
