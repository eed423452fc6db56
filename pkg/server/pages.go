package server

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// pageFiles contains the page: HTML, a style sheet and modules, without a build step.
//
//go:embed ui
var pageFiles embed.FS

// pageCSP allows only resources from this server: no inline scripts or styles, no other
// origins (images in responses are never loaded), and no framing. Worklets are scripts,
// WebSockets to this server count as 'self', and recordings and PDF files are in memory (blob:).
const pageCSP = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
	"img-src 'self' data:; media-src blob:; frame-src blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// handlePage serves the page for app authors.
func (s *Services) handlePage(w http.ResponseWriter, r *http.Request) error {
	return sendPageFile(w, r, "index.html")
}

func (s *Services) handlePageFile(w http.ResponseWriter, r *http.Request) error {
	return sendPageFile(w, r, r.PathValue("file"))
}

// sendPageFile serves a page file. Browsers revalidate it on each load, so the page always
// matches the running binary.
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

// docsHead starts the page /docs. Its only style sheet is one of the page's files.
const docsHead = `<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <meta name="color-scheme" content="light dark">
  <title>agenthost API</title>
  <link rel="icon" href="data:,">
  <link rel="stylesheet" href="ui/docs.css">
</head>
<body>
<h1>agenthost API</h1>
<p>The <a href="openapi.json">OpenAPI 3.1 document</a> describes every endpoint; client generators read it.</p>
`

// handleDocs serves the OpenAPI document as a page without scripts.
func (s *Services) handleDocs(w http.ResponseWriter, _ *http.Request) error {
	page, err := s.docsPage()
	if err != nil {
		return err
	}
	setPageHeaders(w.Header())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(page)
	return nil
}

// renderDocsPage lists the operations by tag, then the schemas.
func renderDocsPage(routes []Route, components [][]byte) ([]byte, error) {
	doc, err := readOpenAPIBase(components)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString(docsHead)
	tags := []string{"sessions", "runs", "artifacts", "apps", "server", "developer"}
	for _, rt := range routes {
		if tag := rt.Doc.groupTag(); !slices.Contains(tags, tag) {
			tags = append(tags, tag)
		}
	}
	for _, tag := range tags {
		fmt.Fprintf(&b, "<h2>%s</h2>\n", html.EscapeString(tag))
		for _, rt := range routes {
			if rt.Doc.groupTag() != tag {
				continue
			}
			if err := rt.writeHTML(&b); err != nil {
				return nil, err
			}
		}
	}
	b.WriteString("<h2>schemas</h2>\n")
	own, _ := doc["components"].(map[string]any)
	schemas, _ := own["schemas"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		fmt.Fprintf(&b, "<details id=%q><summary>%s</summary>", name, name)
		if err := writeCode(&b, schemas[name]); err != nil {
			return nil, err
		}
		b.WriteString("</details>\n")
	}
	b.WriteString("</body>\n</html>\n")
	return []byte(b.String()), nil
}

// writeHTML writes an operation: a summary line, then its parameters and responses.
func (rt *Route) writeHTML(b *strings.Builder) error {
	_, path := splitPattern(rt.Method + " " + rt.Pattern)
	fmt.Fprintf(b, "<details id=%q><summary><b>%s</b> <code>%s</code> %s</summary>", rt.Doc.ID, rt.Method, html.EscapeString(path), html.EscapeString(rt.Doc.Summary))
	if strings.HasPrefix(path, developerMark) {
		b.WriteString("<p>Below <code>/dev/apps/{app}</code>, and for older clients below <code>/apps/{app}</code>.</p>")
	}
	operation := rt.encodeOperation(path)
	operation["tags"] = []string{""}
	if err := writeCode(b, operation); err != nil {
		return err
	}
	b.WriteString("</details>\n")
	return nil
}

func writeCode(b *strings.Builder, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	b.WriteString("<pre>" + schemaRef.ReplaceAllString(html.EscapeString(string(text)), `<a href="#$1">$1</a>`) + "</pre>")
	return nil
}

var schemaRef = regexp.MustCompile(`&#34;#/components/schemas/(\w+)&#34;`)
