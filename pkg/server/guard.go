package server

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// rejectReason says why a request is not let in; empty lets it in. Both rules are
// those of adk-python's cli/api_server.py: they keep the pages of other sites
// from using a browser to talk to this host.
func (s *Server) rejectReason(r *http.Request, pattern string) string {
	switch {
	case !s.isHostAllowed(r.Host) && !slices.Contains(probeRoutes(), pattern):
		return "Forbidden: host not allowed"
	case !isOriginAllowed(r):
		return "Forbidden: origin not allowed"
	default:
		return ""
	}
}

// probeRoutes answer whatever the Host header: who looks after a host calls it by
// an address that nobody knows beforehand, such as that of a pod.
func probeRoutes() []string { return []string{"GET /health", "GET /livez", "GET /readyz"} }

// isHostAllowed stops names that somebody else made point to this machine.
func (s *Server) isHostAllowed(host string) bool {
	if len(s.opts.AllowedHosts) == 0 {
		return true
	}
	bare := stripPort(host)
	for _, allowed := range s.opts.AllowedHosts {
		if strings.EqualFold(allowed, host) || strings.EqualFold(strings.Trim(allowed, "[]"), bare) {
			return true
		}
	}
	return false
}

func stripPort(host string) string {
	if bare, _, err := net.SplitHostPort(host); err == nil {
		return bare
	}
	return strings.Trim(host, "[]")
}

// isOriginAllowed: a request that changes something and names its page's origin
// must come from a page of this host, and on a loopback address from a page of
// this machine. A browser that names no origin says at least whether it is this
// one. Where an answer is not all that comes of it, as with a WebSocket, reading
// is changing: pages of any site may open those.
func isOriginAllowed(r *http.Request) bool {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions
	if reads && r.Header.Get("Upgrade") == "" {
		return true
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	if isServedOnLoopback(r) {
		if u, err := url.Parse(origin); err != nil || !isLoopback(u.Hostname()) {
			return false
		}
	}
	return strings.EqualFold(origin, serverOrigin(r))
}

func isServedOnLoopback(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && isLoopback(stripPort(addr.String()))
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// serverOrigin is the origin that the client used to reach this host, as a proxy
// before it says. A page of another site cannot set these headers.
func serverOrigin(r *http.Request) string {
	if proto, host := parseForwarded(r.Header.Get("Forwarded")); proto != "" && host != "" {
		return proto + "://" + host
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	if proto := firstListItem(r.Header.Get("X-Forwarded-Proto")); proto != "" {
		scheme = proto
	}
	host := r.Host
	if h := firstListItem(r.Header.Get("X-Forwarded-Host")); h != "" {
		host = h
	}
	return scheme + "://" + host
}

// parseForwarded reads the first element of a Forwarded header (RFC 7239).
func parseForwarded(header string) (proto, host string) {
	for pair := range strings.SplitSeq(firstListItem(header), ";") {
		name, value, _ := strings.Cut(pair, "=")
		value = strings.Trim(strings.TrimSpace(value), `"`)
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "proto":
			proto = value
		case "host":
			host = value
		}
	}
	return proto, host
}

func firstListItem(header string) string {
	item, _, _ := strings.Cut(header, ",")
	return strings.TrimSpace(item)
}
