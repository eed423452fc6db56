package policy

import (
	"encoding/binary"
	"net/netip"
	"strconv"
	"strings"
)

// ParseAddr parses an address in every form that some resolver accepts. It accepts numbers with one
// to four parts, each decimal, octal or hexadecimal (127.1, 0x7f000001, 0177.0.0.1), brackets, and
// zones.
func ParseAddr(host string) (netip.Addr, bool) {
	host = strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), ".")
	if addr, err := netip.ParseAddr(host); err == nil {
		return unmapAddress(addr), true
	}
	parts := strings.Split(host, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var value uint64
	for i, part := range parts {
		n, ok := parseAddressPart(part)
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (5 - len(parts)) // the last part fills the remaining bytes
		}
		if !ok || n >= 1<<bits {
			return netip.Addr{}, false
		}
		value = value<<bits | n
	}
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(value))
	return netip.AddrFrom4(b), true
}

// parseAddressPart parses a number as in C: 0x is hexadecimal, 0 octal.
func parseAddressPart(part string) (uint64, bool) {
	if part == "" || strings.ContainsAny(part, "_+-bBoO") {
		return 0, false
	}
	base := 10
	switch {
	case strings.HasPrefix(part, "0x"), strings.HasPrefix(part, "0X"):
		part, base = part[2:], 16
	case len(part) > 1 && part[0] == '0':
		base = 8
	}
	n, err := strconv.ParseUint(part, base, 32)
	return n, err == nil
}

// unmapAddress returns the address without its zone, and IPv4-mapped addresses as IPv4.
func unmapAddress(addr netip.Addr) netip.Addr { return addr.WithZone("").Unmap() }

// Private reports whether an address is not on the public internet: loopback,
// private, link-local, metadata and reserved addresses. For an IPv6 address that
// embeds an IPv4 address, the IPv4 address counts.
func Private(addr netip.Addr) bool {
	addr = unmapAddress(addr)
	if inner, ok := embeddedIPv4(addr); ok {
		return Private(inner)
	}
	if inner, ok := isatapIPv4(addr); ok && Private(inner) {
		return true
	}
	for _, p := range reservedPrefixes() {
		if p.Contains(addr) {
			return true
		}
	}
	return !addr.IsGlobalUnicast()
}

// embeddedIPv4 returns the IPv4 address embedded in an IPv6 address: NAT64, 6to4,
// and the deprecated translated and compatible forms.
func embeddedIPv4(addr netip.Addr) (netip.Addr, bool) {
	if !addr.Is6() {
		return netip.Addr{}, false
	}
	b := addr.As16()
	switch {
	case netip.MustParsePrefix("64:ff9b::/96").Contains(addr):
		return netip.AddrFrom4([4]byte(b[12:])), true
	case netip.MustParsePrefix("::ffff:0:0:0/96").Contains(addr):
		return netip.AddrFrom4([4]byte(b[12:])), true
	case netip.MustParsePrefix("2002::/16").Contains(addr):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	case netip.MustParsePrefix("::/96").Contains(addr) && binary.BigEndian.Uint32(b[12:]) > 1:
		return netip.AddrFrom4([4]byte(b[12:])), true
	}
	return netip.Addr{}, false
}

// isatapIPv4 returns the IPv4 address at the end of an ISATAP address, whose prefix
// may be that of any network.
func isatapIPv4(addr netip.Addr) (netip.Addr, bool) {
	b := addr.As16()
	if !addr.Is6() || binary.BigEndian.Uint32(b[8:])&^0x02000000 != 0x5efe {
		return netip.Addr{}, false
	}
	return netip.AddrFrom4([4]byte(b[12:])), true
}

// reservedPrefixes returns the ranges that are not on the public internet (the IANA
// special-purpose address registries).
func reservedPrefixes() []netip.Prefix {
	texts := []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
		"192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
		"::/127", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
	}
	all := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		all[i] = netip.MustParsePrefix(text)
	}
	return all
}

// isLocalName reports whether a name always refers to the local machine.
func isLocalName(host string) bool {
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// canonicalHost returns a host name in the form for comparisons.
func canonicalHost(host string) string { return strings.TrimSuffix(strings.ToLower(host), ".") }

// splitHostAndPort splits off the port, if there is one.
func splitHostAndPort(text string) (host, port string) {
	i := strings.LastIndexByte(text, ':')
	if i < 0 || strings.Count(text, ":") > 1 && !strings.HasPrefix(text, "[") || strings.HasSuffix(text, "]") {
		return text, ""
	}
	return text[:i], text[i+1:]
}
