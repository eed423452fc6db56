package server

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// rejectReason returns why a request is rejected, or an empty string. Both rules are
// those of adk-python's cli/api_server.py: they prevent pages of other sites from
// calling this server through a browser.
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

// probeRoutes lists the routes that accept any Host header: health checks use addresses
// that are not known in advance, such as the IP of a pod.
func probeRoutes() []string { return []string{"GET /health", "GET /livez", "GET /readyz"} }

// isHostAllowed protects against DNS rebinding.
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

// isOriginAllowed reports whether a request that changes state comes from a page of
// this server. If the request has an Origin, it must be the server's own and, on a
// loopback address, a loopback name. Without an Origin, Sec-Fetch-Site decides.
// WebSocket handshakes count as changes, because browsers let pages of any site open
// them and read from them.
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

// serverOrigin returns the origin that the client used, as reported by a proxy. Pages
// of other sites cannot set these headers.
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

// parseForwarded parses the first element of a Forwarded header (RFC 7239).
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
