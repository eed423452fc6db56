package policy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"syscall"
	"time"
)

// A Guard authorizes the connections that one client of an app makes. It is safe for concurrent
// use.
type Guard struct {
	policy  *Policy
	app     string
	resolve *net.Resolver

	mu           sync.RWMutex
	namedHosts   map[string]bool // host:port in the app's documents
	trustedHosts map[string]bool // host:port in the host's configuration
}

// Guard returns a guard for an app.
func (p *Policy) Guard(app string) *Guard {
	return &Guard{policy: p, app: app, namedHosts: map[string]bool{}, trustedHosts: map[string]bool{}}
}

// Check checks an address in an app document without resolving names. It returns nil or a
// [*Refused]. On a developer's own machine, it allows the app to connect to a loopback address from
// then on.
func (g *Guard) Check(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil // not an address; reported elsewhere
	}
	host, port := canonicalHost(u.Hostname()), portOfURL(u)
	addr, literal := ParseAddr(host)
	local := isLocalName(host)
	if local {
		addr, literal = netip.AddrFrom4([4]byte{127, 0, 0, 1}), true
	}
	if literal && g.policy.isOwnMachine() && (local || addr.IsLoopback()) {
		g.mu.Lock()
		g.namedHosts[net.JoinHostPort(host, port)] = true
		g.mu.Unlock()
	}
	switch {
	case g.policy.isOwnHostName(host, port) && !g.policy.allowsOwnAddress(g.app, host, port, netip.Addr{}):
		return g.refuseOwnAddress(host, port)
	case literal:
		return g.checkAddress(host, port, addr)
	case g.policy.hasPolicyFile() && !g.policy.allowsHostName(g.app, host, port) && !g.isTrustedHost(host, port):
		return g.refuseAddress(host, port, "")
	}
	return nil
}

// checkAddress checks whether the app may reach an address under a host name. It
// returns nil or a [*Refused].
func (g *Guard) checkAddress(host, port string, addr netip.Addr) error {
	addr = unmapAddress(addr)
	g.mu.RLock()
	named := g.namedHosts[net.JoinHostPort(host, port)]
	g.mu.RUnlock()
	private := Private(addr)
	switch {
	case g.policy.isOwnAddress(addr, port):
		if !g.policy.allowsOwnAddress(g.app, host, port, addr) {
			return g.refuseOwnAddress(host, port)
		}
		return nil
	case g.isTrustedHost(host, port), named && addr.IsLoopback(), !private && !g.policy.hasPolicyFile(), g.policy.allowsAddress(g.app, host, port, addr):
		return nil
	case private:
		return g.refuseAddress(host, port, "a private address")
	}
	return g.refuseAddress(host, port, "")
}

func (g *Guard) isTrustedHost(host, port string) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.trustedHosts[net.JoinHostPort(host, port)]
}

func portOfURL(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// Trust allows an address from the host's configuration.
func (g *Guard) Trust(address string) {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.trustedHosts[net.JoinHostPort(canonicalHost(u.Hostname()), portOfURL(u))] = true
	}
}

// refuseAddress returns a Refused that names the host, with the port unless it is 80
// or 443. It does not reveal the address that a name resolves to.
func (g *Guard) refuseAddress(host, port, reason string) *Refused {
	target := net.JoinHostPort(host, port)
	if port == "80" || port == "443" {
		target = host
	}
	return g.policy.newRefused(g.app, "reach "+target, reason, "network: "+quoteYAMLList(target))
}

// refuseOwnAddress returns a Refused with the only grant that allows an app to call its own host:
// the host's address or public name, with the port.
func (g *Guard) refuseOwnAddress(host, port string) *Refused {
	target := net.JoinHostPort(host, port)
	grant := ""
	if addr, literal := ParseAddr(host); literal {
		grant = "network: " + quoteYAMLList(net.JoinHostPort(addr.String(), port))
	} else if g.policy.isOwnHostName(host, port) {
		grant = "network: " + quoteYAMLList(target)
	} else if isLocalName(host) {
		grant = "network: " + quoteYAMLList("127.0.0.1:"+port, "[::1]:"+port)
	}
	return g.policy.newRefused(g.app, "reach "+target, "the address belongs to the host", grant)
}

// Transport returns a transport that connects only to allowed addresses. It checks
// each resolved address just before connecting, also after redirects.
func (g *Guard) Transport() *http.Transport {
	return &http.Transport{
		DialContext: g.dialContext, Proxy: g.selectProxy, ForceAttemptHTTP2: true, MaxIdleConns: 100,
		IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second, ExpectContinueTimeout: time.Second,
	}
}

// selectProxy returns the proxy in the host's environment. The proxy resolves names, so that the
// guard can check only names and literal addresses.
func (g *Guard) selectProxy(req *http.Request) (*url.URL, error) {
	proxy, err := http.ProxyFromEnvironment(req)
	if proxy == nil || err != nil {
		return proxy, err
	}
	g.Trust(proxy.String())
	if err := g.checkProxied(req.URL); err != nil {
		return nil, err
	}
	return proxy, nil
}

func (g *Guard) checkProxied(u *url.URL) error {
	host, port := canonicalHost(u.Hostname()), portOfURL(u)
	addr, literal := ParseAddr(host)
	switch {
	case g.policy.isOwnHostName(host, port) && !g.policy.allowsOwnAddress(g.app, host, port, netip.Addr{}):
		return g.refuseOwnAddress(host, port)
	case literal:
		return g.checkAddress(host, port, addr)
	case !g.policy.hasPolicyFile() || g.isTrustedHost(host, port) || g.policy.grantsHostName(g.app, host, port):
		return nil
	}
	return g.refuseAddress(host, port, "")
}

func (g *Guard) dialContext(ctx context.Context, network, address string) (net.Conn, error) {
	name, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	host := canonicalHost(name)
	if g.policy.isOwnHostName(host, port) && !g.policy.allowsOwnAddress(g.app, host, port, netip.Addr{}) {
		return nil, g.refuseOwnAddress(host, port)
	}
	d := &net.Dialer{Timeout: 30 * time.Second, Resolver: g.resolve, Control: func(_, resolved string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(resolved)
		if err != nil {
			return g.refuseAddress(host, port, "")
		}
		return g.checkAddress(host, port, at.Addr())
	}}
	conn, err := d.DialContext(ctx, network, address)
	if refused := (*Refused)(nil); errors.As(err, &refused) {
		return nil, refused // drop the resolved address that the dialer adds
	}
	return conn, err
}
