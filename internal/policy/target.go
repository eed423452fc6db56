package policy

import (
	"net/netip"
	"strings"
)

// target is one entry in a network grant.
type target struct {
	prefix netip.Prefix // an address or a range
	host   string       // or a host name
	suffix string       // or a host name suffix, with its dot
	any    bool         // or all public addresses
	port   string       // empty means any port
}

func parseTarget(text string) (target, bool) {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return target{prefix: prefix.Masked()}, true
	}
	host, port := splitHostAndPort(text)
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

// matchesHostName reports whether the target matches a host name. Patterns match only if
// the address is public.
func (t *target) matchesHostName(host, port string, public bool) bool {
	if t.port != "" && t.port != port {
		return false
	}
	return t.host != "" && t.host == host || public && (t.any || t.suffix != "" && strings.HasSuffix(host, t.suffix))
}

func (t *target) matchesAddress(addr netip.Addr, port string) bool {
	return (t.port == "" || t.port == port) && t.prefix.IsValid() && t.prefix.Contains(addr)
}
