package server

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"fmt"
	"net/http"
	"time"
)

// pageFiles contains the page: HTML, a style sheet and modules, without a build step.
//
//go:embed ui
var pageFiles embed.FS

// pageCSP allows resources of this server only: no inline scripts or styles, no other
// origins (images in responses are never loaded), and no framing.
const pageCSP = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
	"img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// handlePage serves the page for app authors.
func (s *Server) handlePage(w http.ResponseWriter, r *http.Request) error {
	return sendPageFile(w, r, "index.html")
}

func (s *Server) handlePageFile(w http.ResponseWriter, r *http.Request) error {
	return sendPageFile(w, r, r.PathValue("file"))
}

// sendPageFile serves a file of the page. Browsers revalidate it on each load, so the
// page always matches the running binary.
func sendPageFile(w http.ResponseWriter, r *http.Request, name string) error {
	text, err := pageFiles.ReadFile("ui/" + name)
	if err != nil {
		return notFoundError("Not Found")
	}
	h := w.Header()
	setPageHeaders(h)
	h.Set("ETag", fmt.Sprintf(`"%x"`, sha256.Sum256(text)))
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(text))
	return nil
}

func setPageHeaders(h http.Header) {
	h.Set("Content-Security-Policy", pageCSP)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache")
}
