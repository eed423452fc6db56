package devui

import (
	"bytes"
	"io/fs"
	"net/http"

	"agenthost/pkg/server"
)

// runtimeConfig configures ADK's web client: the same origin as backend, telemetry off.
const runtimeConfig = `{"backendUrl":"","telemetry":false}`

// devUICSP allows resources from this server and the fonts that the bundle uses. The page has
// an inline script and inline styles. Other sites may not frame it.
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
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusTemporaryRedirect)
	return nil
}

// isDevUIFile reports whether a file exists; the empty name is the page. Directories
// are not listed.
func (s *handlers) isDevUIFile(name string) bool {
	if name == "" {
		return true
	}
	info, err := fs.Stat(s.opts.UI, name)
	return err == nil && info.Mode().IsRegular()
}

// handleDevUIFile serves a bundle file.
func (s *handlers) handleDevUIFile(w http.ResponseWriter, r *http.Request) error {
	if !s.isDevUIFile(r.PathValue("file")) {
		return server.NewError(http.StatusNotFound, "Not Found")
	}
	setDevUIHeaders(w.Header())
	http.StripPrefix("/dev-ui/", http.FileServerFS(s.opts.UI)).ServeHTTP(w, r)
	return nil
}

// handleRuntimeConfig responds with the configuration for ADK's web client.
func handleRuntimeConfig(w http.ResponseWriter, _ *http.Request) error {
	server.WriteRawJSON(w, http.StatusOK, []byte(runtimeConfig))
	return nil
}

// audioProcessor is the bundle file that records the microphone.
const audioProcessor = "assets/audio-processor.js"

// handleAudioProcessor corrects the rate at which ADK Web in adk-devtools 2.0.0 records. It
// sends the audio without a rate, which means 16 kHz, but records at 22 kHz; later ADK Web
// versions record at 16 kHz.
func (s *handlers) handleAudioProcessor(w http.ResponseWriter, _ *http.Request) error {
	text, err := fs.ReadFile(s.opts.UI, audioProcessor)
	if err != nil {
		return server.NewError(http.StatusNotFound, "Not Found")
	}
	setDevUIHeaders(w.Header())
	w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
	_, _ = w.Write(bytes.Replace(text, []byte("targetSampleRate = 22000"), []byte("targetSampleRate = 16000"), 1))
	return nil
}

func (s *handlers) handleDevUIConfig(w http.ResponseWriter, _ *http.Request) error {
	return server.WriteJSON(w, struct {
		Text  *string `json:"logo_text"`
		Image *string `json:"logo_image_url"`
	}{})
}

// handleTelemetry reports that telemetry is off, whatever the user chose in ADK's web client.
func (s *handlers) handleTelemetry(w http.ResponseWriter, _ *http.Request) error {
	return server.WriteJSON(w, map[string]bool{"telemetry": false})
}
