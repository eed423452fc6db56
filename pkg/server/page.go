package server

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"fmt"
	"net/http"
	"time"
)

// pageFiles are the page: HTML, style sheet and modules, without a build step.
//
//go:embed ui
var pageFiles embed.FS

// pageCSP allows resources of this server only: no inline script or style, no
// other site (so images of an answer are never loaded), no frame around the page.
const pageCSP = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
	"img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// handlePage serves the page for authors of apps.
func (s *Server) handlePage(w http.ResponseWriter, r *http.Request) error {
	return sendPageFile(w, r, "index.html")
}

func (s *Server) handlePageFile(w http.ResponseWriter, r *http.Request) error {
	return sendPageFile(w, r, r.PathValue("file"))
}

// sendPageFile sends a file of the page. Browsers revalidate it each time, so that
// the page always belongs to the running binary.
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

// setPageHeaders are the headers of every page of ours.
func setPageHeaders(h http.Header) {
	h.Set("Content-Security-Policy", pageCSP)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache")
}
