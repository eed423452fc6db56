package server

import (
	"io/fs"
	"net/http"
)

// runtimeConfig is the configuration of ADK's web client: the same origin as backend,
// telemetry off.
const runtimeConfig = `{"backendUrl":"","telemetry":false}`

// devUIRoutes serves a built ADK Web bundle if there is one.
func (s *Server) devUIRoutes() []route {
	files := http.StripPrefix("/dev-ui/", http.FileServerFS(s.opts.UI))
	return []route{
		{"GET /dev-ui", redirectToDevUI},
		{"GET /dev-ui/config", s.handleDevUIConfig},
		{"GET /dev-ui/assets/config/runtime-config.json", func(w http.ResponseWriter, _ *http.Request) error {
			writeRawJSON(w, http.StatusOK, []byte(runtimeConfig))
			return nil
		}},
		{"GET /dev-ui/{file...}", func(w http.ResponseWriter, r *http.Request) error {
			if !s.isDevUIFile(r.PathValue("file")) {
				return notFoundError("Not Found")
			}
			setDevUIHeaders(w.Header())
			files.ServeHTTP(w, r)
			return nil
		}},
	}
}

// devUICSP allows resources of this server and the fonts that the bundle uses. The page
// has an inline script and inline styles. Other sites may not frame it.
const devUICSP = "default-src 'none'; script-src 'self' 'unsafe-inline' 'wasm-unsafe-eval'; " +
	"style-src 'self' 'unsafe-inline' https://fonts.googleapis.com; font-src 'self' data: https://fonts.gstatic.com; " +
	"connect-src 'self' data: blob:; img-src 'self' data: blob:; media-src 'self' data: blob:; worker-src 'self' blob:; " +
	"manifest-src 'self'; base-uri 'self'; form-action 'none'; frame-src 'self' blob:; frame-ancestors 'none'"

func setDevUIHeaders(h http.Header) {
	h.Set("Content-Security-Policy", devUICSP)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-cache")
}

// redirectToDevUI preserves the query, which names an app or a session.
func redirectToDevUI(w http.ResponseWriter, r *http.Request) error {
	to := "/dev-ui/"
	if r.URL.RawQuery != "" {
		to += "?" + r.URL.RawQuery
	}
	redirectTo(w, to)
	return nil
}

// isDevUIFile reports whether a file exists; the empty name is the page. Directories
// are not listed.
func (s *Server) isDevUIFile(name string) bool {
	if name == "" {
		return true
	}
	info, err := fs.Stat(s.opts.UI, name)
	return err == nil && info.Mode().IsRegular()
}

func (s *Server) handleDevUIConfig(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, struct {
		Text  *string `json:"logo_text"`
		Image *string `json:"logo_image_url"`
	}{})
}
