package server

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"fmt"
	"net/http"
	"time"
)

// pageFiles are the first page: three files, as they were written.
//
//go:embed ui
var pageFiles embed.FS

// pagePolicy lets the page have what comes from this host, and nothing else: no
// inline script or style, no other site, no frame around it.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
	"img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// handlePage answers with the page that shows apps to who writes them.
func (s *Server) handlePage(w http.ResponseWriter, r *http.Request) error {
	return sendPageFile(w, r, "index.html")
}

func (s *Server) handlePageFile(w http.ResponseWriter, r *http.Request) error {
	return sendPageFile(w, r, r.PathValue("file"))
}

// sendPageFile sends a file of the page. Browsers ask each time whether it is
// another one: the page must be that of the binary that serves.
func sendPageFile(w http.ResponseWriter, r *http.Request, name string) error {
	text, err := pageFiles.ReadFile("ui/" + name)
	if err != nil {
		return missingError("Not Found")
	}
	h := w.Header()
	setPageHeaders(h)
	h.Set("ETag", fmt.Sprintf(`"%x"`, sha256.Sum256(text)))
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(text))
	return nil
}

// setPageHeaders are the headers of every page of ours.
func setPageHeaders(h http.Header) {
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache")
}
