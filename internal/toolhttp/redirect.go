package toolhttp

import (
	"errors"
	"net/http"
	"strings"
)

// GuardRedirects returns a copy of the client that follows a redirect to
// another host only with GET and without the configured headers.
func GuardRedirects(c *http.Client) *http.Client {
	if c == nil {
		c = http.DefaultClient
	}
	guarded, next := *c, c.CheckRedirect
	guarded.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if leavesHost(req, via) {
			if req.Method != http.MethodGet {
				return http.ErrUseLastResponse
			}
			req.Header = http.Header{"User-Agent": {UserAgent}}
		}
		if next != nil {
			return next(req, via)
		}
		if len(via) >= 10 {
			return errors.New("stopped after 10 redirects")
		}
		return nil
	}
	return &guarded
}

// leavesHost reports whether any hop so far left the first host, or its TLS: a
// foreign host must not be able to redirect the credentials back either.
func leavesHost(req *http.Request, via []*http.Request) bool {
	home := via[0].URL
	for _, r := range append(via[1:len(via):len(via)], req) {
		if r.URL.Host != home.Host || home.Scheme == "https" && r.URL.Scheme != "https" {
			return true
		}
	}
	return false
}

// AppendQuery adds an encoded query to a URL, which may have one.
func AppendQuery(address, query string) string {
	switch {
	case query == "":
		return address
	case !strings.Contains(address, "?"):
		return address + "?" + query
	case strings.HasSuffix(address, "?"), strings.HasSuffix(address, "&"):
		return address + query
	default:
		return address + "&" + query
	}
}
