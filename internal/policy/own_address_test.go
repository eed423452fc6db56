package policy

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"testing"
)

// hostPolicies returns a policy for each mode in which a host listens on an address. The policies
// grant everything on the machine except the address itself.
func hostPolicies(t *testing.T, host Host) map[string]*Policy {
	t.Helper()
	wide, problems := decodePolicy(t, "grants:\n- {network: [127.0.0.0/8, 0.0.0.0/0, '::/0', '*', localhost, 127.0.0.1, '::1', own.test, 'own.test:"+formatPort(host.Listeners[0])+"']}")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return map[string]*Policy{"own machine": (*Policy)(nil).For(host), "wide grants": wide.For(host)}
}

// TestOwnAddress requests the address that the host listens on by every name, number, redirect and
// IPv6 form, in every mode. No request may reach it without a grant for the address and port. The
// control, another address on the machine, is reached.
func TestOwnAddress(t *testing.T) {
	h, first := newTestServer(t), newTestServer(t)
	own := netip.MustParseAddrPort(h.Listener.Addr().String())
	listeners := map[string]netip.AddrPort{"loopback": own, "every address": netip.AddrPortFrom(netip.IPv4Unspecified(), own.Port()), "every IPv6 address": netip.AddrPortFrom(netip.IPv6Unspecified(), own.Port())}
	forms := append(loopbackHosts(), "own.test")
	for where, listener := range listeners {
		for mode, p := range hostPolicies(t, Host{Listeners: []netip.AddrPort{listener}}) {
			g := p.Guard("shop")
			g.resolve = newResolver(t, "127.0.0.1")
			c := &http.Client{Transport: g.Transport()}
			_ = g.Check(first.URL)
			h.connections.Store(0)
			for _, form := range forms {
				address := "http://" + form + ":" + h.port + "/"
				_ = g.Check(address)
				if getURL(c, address) == nil || getURL(c, first.URL+"/?to="+url.QueryEscape(address)) == nil {
					t.Errorf("%s, listening on %s: %s was reached", mode, where, form)
				}
			}
			if n := h.connections.Load(); n != 0 {
				t.Errorf("%s, listening on %s: %d connections were accepted", mode, where, n)
			}
			if first.connections.Load() == 0 {
				t.Errorf("%s: another server of this machine was not reached", mode)
			}
		}
	}
	other := netip.AddrPortFrom(own.Addr(), 1)
	for mode, p := range hostPolicies(t, Host{Listeners: []netip.AddrPort{other}}) {
		g := p.Guard("shop")
		address := "http://127.0.0.1:" + h.port + "/"
		if err := errors.Join(g.Check(address), getURL(&http.Client{Transport: g.Transport()}, address)); err != nil {
			t.Errorf("the control, %s: %v", mode, err)
		}
	}
}

// TestOwnInterface covers the addresses of the machine's interfaces: they belong to a
// host that listens on all addresses.
func TestOwnInterface(t *testing.T) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		addr, _ := netip.AddrFromSlice(a.(*net.IPNet).IP)
		for _, listener := range []string{"0.0.0.0:8000", "[::]:8000", netip.AddrPortFrom(unmapAddress(addr), 8000).String()} {
			p := (*Policy)(nil).For(Host{Listeners: []netip.AddrPort{netip.MustParseAddrPort(listener)}})
			if !p.isOwnAddress(addr, "8000") {
				t.Errorf("%s is not recognized as an address of a host that listens on %s", addr, listener)
			}
			if p.isOwnAddress(addr, "8001") || p.isOwnAddress(netip.MustParseAddr("8.8.8.8"), "8000") {
				t.Errorf("listening on %s: another port or machine is recognized as the host", listener)
			}
		}
	}
}

// TestOwnAddressGranted expects an app to call its host with a grant for the address and port, and
// the error to name that grant.
func TestOwnAddressGranted(t *testing.T) {
	h := newTestServer(t)
	host := Host{Listeners: []netip.AddrPort{netip.MustParseAddrPort(h.Listener.Addr().String())}, Names: []string{"agents.example.com"}}
	refused := (*Refused)(nil)
	if !errors.As((&Policy{}).For(host).Guard("shop").Check(h.URL), &refused) {
		t.Fatal("allowed without a grant")
	}
	want := "app shop may not reach 127.0.0.1:" + h.port + " (the address belongs to the host); to allow it, add to grants in the --policy file: " +
		`- {apps: [shop], network: ["127.0.0.1:` + h.port + `"]}`
	if refused.Error() != want {
		t.Errorf("Error() = %s\nwant %s", refused, want)
	}
	p, problems := decodePolicy(t, "grants:\n"+refused.Line)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	g := p.For(host).Guard("shop")
	if err := errors.Join(g.Check(h.URL), getURL(&http.Client{Transport: g.Transport()}, h.URL)); err != nil {
		t.Errorf("with the grant: %v", err)
	}
	if !errors.As((*Policy)(nil).For(host).Guard("shop").Check("https://Agents.example.com./run"), &refused) || refused.Line != `- {apps: [shop], network: ["agents.example.com:443"]}` {
		t.Errorf("the name of the host: %v", refused)
	}
}

// TestPublicGrants covers grants for public addresses, which a policy file requires: by name, by
// suffix, by range, or for all. A pattern does not allow private addresses.
func TestPublicGrants(t *testing.T) {
	const public, private = "8.8.8.8", "10.0.0.5"
	for _, tt := range []struct {
		network, host, addr string
		want                bool
	}{
		{"[]", "api.example.com", public, false},
		{"[api.example.com]", "api.example.com", public, true},
		{"[api.example.com]", "evil.example", public, false},
		{"['api.example.com:8443']", "api.example.com", public, false},
		{"['*.example.com']", "api.example.com", public, true},
		{"['*.example.com']", "a.b.example.com", public, true},
		{"['*.example.com']", "example.com", public, false},
		{"['*.example.com']", "evilexample.com", public, false},
		{"['*.example.com']", "api.example.com.evil.example", public, false},
		{"['*.example.com']", "api.example.com", private, false},
		{"['*.example.com:443']", "api.example.com", public, true},
		{"['*.example.com:80']", "api.example.com", public, false},
		{"['*']", "anything.example", public, true},
		{"['*']", public, public, true},
		{"['*']", "anything.example", private, false},
		{"[8.8.0.0/16]", "anything.example", public, true},
		{"[8.8.0.0/16]", "anything.example", "9.9.9.9", false},
	} {
		p, problems := decodePolicy(t, "grants:\n- {apps: [shop], network: "+tt.network+"}")
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		if got := p.Guard("shop").checkAddress(tt.host, "443", netip.MustParseAddr(tt.addr)) == nil; got != tt.want {
			t.Errorf("network %s: %s at %s allowed = %v, want %v", tt.network, tt.host, tt.addr, got, tt.want)
		}
		if p.Guard("desk").checkAddress(tt.host, "443", netip.MustParseAddr(tt.addr)) == nil {
			t.Errorf("network %s: another app reaches %s", tt.network, tt.host)
		}
	}
}
