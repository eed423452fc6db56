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

// A Guard guards the connections of one client of an app. Many goroutines may use
// it.
type Guard struct {
	policy  *Policy
	app     string
	resolve *net.Resolver

	mu           sync.RWMutex
	namedHosts   map[string]bool // host:port that the app's documents name
	trustedHosts map[string]bool // host:port that the host's own configuration names
}

// Guard returns a guard for an app.
func (p *Policy) Guard(app string) *Guard {
	return &Guard{policy: p, app: app, namedHosts: map[string]bool{}, trustedHosts: map[string]bool{}}
}

// Check looks at an address that a document of the app names, as far as it can
// be judged without resolving names. It is nil, or a [*Refused]. On a developer's
// own machine, a loopback address that is named is allowed from then on.
func (g *Guard) Check(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil // that is not an address, which others report
	}
	host, port := canonicalHost(u.Hostname()), portOf(u)
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
	case g.policy.isOwnName(host, port) && !g.policy.allowsOwnAddress(g.app, host, port, netip.Addr{}):
		return g.refuseOwnAddress(host, port)
	case literal:
		return g.checkAddr(host, port, addr)
	case g.policy.hasFile() && !g.policy.allowsName(g.app, host, port) && !g.isTrusted(host, port):
		return g.refuseAddress(host, port, "")
	}
	return nil
}

// checkAddr says whether an address may be reached by the name of a host. It is
// nil, or a [*Refused].
func (g *Guard) checkAddr(host, port string, addr netip.Addr) error {
	addr = unmapAddr(addr)
	g.mu.RLock()
	named := g.namedHosts[net.JoinHostPort(host, port)]
	g.mu.RUnlock()
	private := Private(addr)
	switch {
	case g.policy.isOwnAddr(addr, port):
		if !g.policy.allowsOwnAddress(g.app, host, port, addr) {
			return g.refuseOwnAddress(host, port)
		}
		return nil
	case g.isTrusted(host, port), named && addr.IsLoopback(), !private && !g.policy.hasFile(), g.policy.allowsAddr(g.app, host, port, addr):
		return nil
	case private:
		return g.refuseAddress(host, port, "a private address")
	}
	return g.refuseAddress(host, port, "")
}

func (g *Guard) isTrusted(host, port string) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.trustedHosts[net.JoinHostPort(host, port)]
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

// Trust lets the client reach an address that the host's own configuration names.
func (g *Guard) Trust(address string) {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.trustedHosts[net.JoinHostPort(canonicalHost(u.Hostname()), portOf(u))] = true
	}
}

// refuseAddress names the host, and the port that is not the usual one, as a grant does.
// It does not name the address behind a name: an app's user need not know it.
func (g *Guard) refuseAddress(host, port, reason string) *Refused {
	target := net.JoinHostPort(host, port)
	if port == "80" || port == "443" {
		target = host
	}
	return g.policy.newRefused(g.app, "reach "+target, reason, "network: "+quoteList(target))
}

// refuseOwnAddress names the one grant that opens the host to its own apps: its address,
// or the name that clients call it by, with the port.
func (g *Guard) refuseOwnAddress(host, port string) *Refused {
	target := net.JoinHostPort(host, port)
	grant := ""
	if addr, literal := ParseAddr(host); literal {
		grant = "network: " + quoteList(net.JoinHostPort(addr.String(), port))
	} else if g.policy.isOwnName(host, port) {
		grant = "network: " + quoteList(target)
	} else if isLocalName(host) {
		grant = "network: " + quoteList("127.0.0.1:"+port, "[::1]:"+port)
	}
	return g.policy.newRefused(g.app, "reach "+target, "it leads to the host itself", grant)
}

// Transport makes connections that go only where the app may reach: each
// address is looked at when it is resolved, just before the connection is made,
// and so is that of each redirect.
func (g *Guard) Transport() *http.Transport {
	return &http.Transport{
		DialContext: g.dialContext, Proxy: g.proxyFor, ForceAttemptHTTP2: true, MaxIdleConns: 100,
		IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second, ExpectContinueTimeout: time.Second,
	}
}

// proxyFor finds the proxy of the host's environment. The proxy resolves names, so
// that only names, and addresses that are written out, can be refused.
func (g *Guard) proxyFor(req *http.Request) (*url.URL, error) {
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
	host, port := canonicalHost(u.Hostname()), portOf(u)
	addr, literal := ParseAddr(host)
	switch {
	case g.policy.isOwnName(host, port) && !g.policy.allowsOwnAddress(g.app, host, port, netip.Addr{}):
		return g.refuseOwnAddress(host, port)
	case literal:
		return g.checkAddr(host, port, addr)
	case !g.policy.hasFile() || g.isTrusted(host, port) || g.policy.grantsName(g.app, host, port):
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
	if g.policy.isOwnName(host, port) && !g.policy.allowsOwnAddress(g.app, host, port, netip.Addr{}) {
		return nil, g.refuseOwnAddress(host, port)
	}
	d := &net.Dialer{Timeout: 30 * time.Second, Resolver: g.resolve, Control: func(_, resolved string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(resolved)
		if err != nil {
			return g.refuseAddress(host, port, "")
		}
		return g.checkAddr(host, port, at.Addr())
	}}
	conn, err := d.DialContext(ctx, network, address)
	if refused := (*Refused)(nil); errors.As(err, &refused) {
		return nil, refused // without the address that the dialer adds
	}
	return conn, err
}
