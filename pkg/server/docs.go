package server

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// docsHead is the start of the page /docs. Its only style sheet is a file of the page.
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
func (s *Server) handleDocs(w http.ResponseWriter, _ *http.Request) error {
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
func renderDocsPage() ([]byte, error) {
	var base struct {
		Components struct {
			Schemas map[string]any
		}
	}
	if err := yaml.Unmarshal(openAPIBase, &base); err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString(docsHead)
	for _, g := range operationGroups() {
		fmt.Fprintf(&b, "<h2>%s</h2>\n", g.tag)
		for _, op := range g.operations {
			if err := op.writeHTML(&b); err != nil {
				return nil, err
			}
		}
	}
	b.WriteString("<h2>schemas</h2>\n")
	names := make([]string, 0, len(base.Components.Schemas))
	for name := range base.Components.Schemas {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&b, "<details id=%q><summary>%s</summary>", name, name)
		if err := writeCode(&b, base.Components.Schemas[name]); err != nil {
			return nil, err
		}
		b.WriteString("</details>\n")
	}
	b.WriteString("</body>\n</html>\n")
	return []byte(b.String()), nil
}

// writeHTML writes an operation: a summary line, then its parameters and responses.
func (op operation) writeHTML(b *strings.Builder) error {
	method, path := splitPattern(op.pattern)
	fmt.Fprintf(b, "<details id=%q><summary><b>%s</b> <code>%s</code> %s</summary>", op.id, method, html.EscapeString(path), html.EscapeString(op.summary))
	if strings.Contains(path, "…") {
		b.WriteString("<p>Below <code>/dev/apps/{app}</code>, and for older clients below <code>/apps/{app}</code>.</p>")
	}
	if err := writeCode(b, op.encodeOperation(op.pattern, "")); err != nil {
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
	b.WriteString("<pre>" + linkSchemas(html.EscapeString(string(text))) + "</pre>")
	return nil
}

var schemaRef = regexp.MustCompile(`&#34;#/components/schemas/(\w+)&#34;`)

// linkSchemas turns references to schemas into links.
func linkSchemas(text string) string {
	return schemaRef.ReplaceAllString(text, `<a href="#$1">$1</a>`)
}
