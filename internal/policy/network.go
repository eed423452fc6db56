package policy

import (
	"net"
	"net/netip"
	"slices"
)

// allowsAddress reports whether an app may reach an address under a host name.
func (p *Policy) allowsAddress(app, host, port string, addr netip.Addr) bool {
	public := !Private(addr)
	return p.hasMatchingGrant(app, func(g *grant) bool {
		return slices.ContainsFunc(g.targets, func(t target) bool { return t.matchesHostName(host, port, public) || t.matchesAddress(addr, port) })
	})
}

// allowsHostName reports whether an app may try to reach a name before it is resolved: an address
// grant may match the result.
func (p *Policy) allowsHostName(app, host, port string) bool {
	return p.hasMatchingGrant(app, func(g *grant) bool {
		return slices.ContainsFunc(g.targets, func(t target) bool {
			return t.matchesHostName(host, port, true) || t.prefix.IsValid() && (t.port == "" || t.port == port)
		})
	})
}

// grantsHostName reports whether a grant matches a host name, for connections through a
// proxy that resolves the name.
func (p *Policy) grantsHostName(app, host, port string) bool {
	return p.hasMatchingGrant(app, func(g *grant) bool {
		return slices.ContainsFunc(g.targets, func(t target) bool { return t.matchesHostName(host, port, true) })
	})
}

// isOwnAddress reports whether the host itself listens on an address, in any form.
func (p *Policy) isOwnAddress(addr netip.Addr, port string) bool {
	if p == nil {
		return false
	}
	addr = unmapAddress(addr)
	if inner, ok := embeddedIPv4(addr); ok && p.isOwnAddress(inner, port) {
		return true
	}
	if inner, ok := isatapIPv4(addr); ok && p.isOwnAddress(inner, port) {
		return true
	}
	return slices.ContainsFunc(p.host.Listeners, func(own netip.AddrPort) bool {
		if formatPort(own) != port {
			return false
		}
		at := unmapAddress(own.Addr())
		switch {
		case at == addr:
			return true
		case at.IsUnspecified():
			return addr.IsLoopback() || addr.IsUnspecified() || isInterfaceAddr(addr)
		}
		return addr.IsUnspecified() && (at.IsLoopback() || isInterfaceAddr(at)) // an unspecified address connects to this machine
	})
}

func formatPort(at netip.AddrPort) string {
	_, port, _ := net.SplitHostPort(at.String())
	return port
}

// isInterfaceAddr reports whether an interface on this machine has the address now.
func isInterfaceAddr(addr netip.Addr) bool {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return true // unknown, assume that it has
	}
	return slices.ContainsFunc(all, func(a net.Addr) bool {
		ipNet, ok := a.(*net.IPNet)
		if !ok {
			return false
		}
		own, ok := netip.AddrFromSlice(ipNet.IP)
		return ok && unmapAddress(own) == addr
	})
}

// isOwnHostName reports whether this is the host's public name. Local names may also lead to other
// programs; addresses decide about those.
func (p *Policy) isOwnHostName(host, port string) bool {
	if _, literal := ParseAddr(host); literal || isLocalName(host) {
		return false
	}
	return p != nil && slices.ContainsFunc(p.host.Names, func(name string) bool {
		own, ownPort := splitHostAndPort(name)
		return canonicalHost(own) == host && (ownPort == "" || ownPort == port)
	})
}

// allowsOwnAddress reports whether a grant explicitly names the host's own address or
// public name, with its port.
func (p *Policy) allowsOwnAddress(app, host, port string, addr netip.Addr) bool {
	return p.hasMatchingGrant(app, func(g *grant) bool {
		return slices.ContainsFunc(g.targets, func(t target) bool {
			one := t.prefix.IsValid() && t.prefix.IsSingleIP() && t.prefix.Contains(addr)
			return t.port == port && (one || !addr.IsValid() && t.host == host)
		})
	})
}
