package policy

import (
	"net"
	"net/netip"
	"slices"
	"strings"
)

// target is one entry of a network grant.
type target struct {
	prefix netip.Prefix // of an address or a range
	host   string       // or a host name
	suffix string       // or the end of host names, with its dot
	any    bool         // or every public address
	port   string       // empty is any
}

func parseTarget(text string) (target, bool) {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return target{prefix: prefix.Masked()}, true
	}
	host, port := cutPort(text)
	if strings.Trim(port, "0123456789") != "" || strings.HasSuffix(text, ":") {
		return target{}, false
	}
	if host == "*" {
		return target{any: true, port: port}, true
	}
	if addr, ok := ParseAddr(host); ok {
		return target{prefix: netip.PrefixFrom(addr, addr.BitLen()), port: port}, true
	}
	name, isPattern := strings.CutPrefix(host, "*.")
	if name == "" || strings.ContainsAny(name, "/*@ ?#[]:%") {
		return target{}, false
	}
	if isPattern {
		return target{suffix: "." + canonicalHost(name), port: port}, true
	}
	return target{host: canonicalHost(host), port: port}, true
}

// hasName says whether a grant is for a host name, wherever it leads, as far as
// that is public: patterns never open private addresses.
func (t *target) hasName(host, port string, public bool) bool {
	if t.port != "" && t.port != port {
		return false
	}
	return t.host != "" && t.host == host || public && (t.any || t.suffix != "" && strings.HasSuffix(host, t.suffix))
}

func (t *target) hasAddr(addr netip.Addr, port string) bool {
	return (t.port == "" || t.port == port) && t.prefix.IsValid() && t.prefix.Contains(addr)
}

// allowsAddr says whether an app may reach an address by the name of a host.
func (p *Policy) allowsAddr(app, host, port string, addr netip.Addr) bool {
	public := !Private(addr)
	return p.grantsTo(app, func(g *grant) bool {
		return slices.ContainsFunc(g.targets, func(t target) bool { return t.hasName(host, port, public) || t.hasAddr(addr, port) })
	})
}

// allowsName says whether an app may try to reach a name, before the addresses
// that it leads to are known: a grant of addresses may hold for them.
func (p *Policy) allowsName(app, host, port string) bool {
	return p.grantsTo(app, func(g *grant) bool {
		return slices.ContainsFunc(g.targets, func(t target) bool {
			return t.hasName(host, port, true) || t.prefix.IsValid() && (t.port == "" || t.port == port)
		})
	})
}

// grantsName says whether a grant names a host, for connections whose addresses
// only a proxy knows.
func (p *Policy) grantsName(app, host, port string) bool {
	return p.grantsTo(app, func(g *grant) bool {
		return slices.ContainsFunc(g.targets, func(t target) bool { return t.hasName(host, port, true) })
	})
}

// isOwnAddr says whether an address is one that the host itself listens on, in
// whichever form it is written.
func (p *Policy) isOwnAddr(addr netip.Addr, port string) bool {
	if p == nil {
		return false
	}
	addr = unmapAddr(addr)
	if inner, ok := embeddedIPv4(addr); ok && p.isOwnAddr(inner, port) {
		return true
	}
	if inner, ok := isatapIPv4(addr); ok && p.isOwnAddr(inner, port) {
		return true
	}
	return slices.ContainsFunc(p.host.Listeners, func(own netip.AddrPort) bool {
		if portText(own) != port {
			return false
		}
		at := unmapAddr(own.Addr())
		switch {
		case at == addr:
			return true
		case at.IsUnspecified():
			return addr.IsLoopback() || addr.IsUnspecified() || isInterfaceAddr(addr)
		}
		return addr.IsUnspecified() && (at.IsLoopback() || isInterfaceAddr(at)) // connects to this machine
	})
}

func portText(at netip.AddrPort) string {
	_, port, _ := net.SplitHostPort(at.String())
	return port
}

// isInterfaceAddr says whether an address is one of this machine's interfaces now.
func isInterfaceAddr(addr netip.Addr) bool {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return true // it may be
	}
	return slices.ContainsFunc(all, func(a net.Addr) bool {
		ipNet, ok := a.(*net.IPNet)
		if !ok {
			return false
		}
		own, ok := netip.AddrFromSlice(ipNet.IP)
		return ok && unmapAddr(own) == addr
	})
}

// isOwnName says whether clients call the host by this name. Names of this machine
// lead to other programs as well: those are judged by their addresses.
func (p *Policy) isOwnName(host, port string) bool {
	if _, literal := ParseAddr(host); literal || isLocalName(host) {
		return false
	}
	return p != nil && slices.ContainsFunc(p.host.Names, func(name string) bool {
		own, ownPort := cutPort(name)
		return canonicalHost(own) == host && (ownPort == "" || ownPort == port)
	})
}

// allowsOwnAddress says whether a grant names the host's own address explicitly: the
// address, or the name that clients call it by, with its port.
func (p *Policy) allowsOwnAddress(app, host, port string, addr netip.Addr) bool {
	return p.grantsTo(app, func(g *grant) bool {
		return slices.ContainsFunc(g.targets, func(t target) bool {
			one := t.prefix.IsValid() && t.prefix.IsSingleIP() && t.prefix.Contains(addr)
			return t.port == port && (one || !addr.IsValid() && t.host == host)
		})
	})
}
