package chatpage

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// pageFiles are the page's files. The page also uses modules of the developer page at /ui/, such
// as its Markdown, which writes no HTML.
//
//go:embed ui
var pageFiles embed.FS

// pageCSP is the policy of the page, and of its frame on other pages: only what this server has,
// no inline scripts or styles, and files that scripts have loaded (blob:). %s are the pages that may
// embed it.
const pageCSP = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; " +
	"media-src 'self' blob:; frame-src blob:; base-uri 'none'; form-action 'none'; frame-ancestors %s"

var pageTemplate = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"{{if ne .Mode "auto"}} data-mode="{{.Mode}}"{{end}}>
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1, viewport-fit=cover, interactive-widget=resizes-content">
  <meta name="color-scheme" content="{{if eq .Mode "auto"}}light dark{{else}}{{.Mode}}{{end}}">
  <meta name="referrer" content="no-referrer">
  <title>{{.Title}}</title>
  <link rel="icon" href="data:,">
  <link rel="stylesheet" href="{{.Base}}/chat.css">
  <link rel="stylesheet" href="{{.Base}}/theme.css">
  <script type="module" src="{{.Base}}/chat.js"></script>
</head>
<body data-base="{{.Base}}" data-settings="{{.Settings}}">
<noscript>This chat needs JavaScript.</noscript>
</body>
</html>
`))

// pageSettings are the app's settings for the page.
type pageSettings struct {
	Title       string   `json:"title"`
	Welcome     string   `json:"welcome"`
	Suggestions []string `json:"suggestions"`
	// Uploads are the media types of files that users may send.
	Uploads []string `json:"uploads"`
	// Voice shows the microphone button.
	Voice bool `json:"voice"`
	// Origins are the pages that may embed the chat, from which it takes a token.
	Origins []string `json:"origins"`
	// SignIn is required, or a choice where guests are welcome, or empty without authentication.
	SignIn string `json:"signIn"`
	// MaxUpload limits a message's files together, in bytes.
	MaxUpload int64 `json:"maxUpload"`
}

const (
	signInRequired = "required"
	signInOptional = "optional"
)

func (h *handlers) handlePage(w http.ResponseWriter, r *http.Request) error {
	app, chat, err := h.findChat(r)
	if err != nil {
		return err
	}
	s := pageSettings{
		Title: cmp.Or(chat.Title, app.Name()), Welcome: chat.Welcome, Suggestions: append([]string{}, chat.Suggestions...), Voice: chat.Voice,
		Uploads: append([]string{}, chat.Uploads...), Origins: append([]string{}, chat.Origins...),
		MaxUpload: h.MaxBody() / 4 * 3 * 9 / 10, // base64, and the rest of the request
	}
	switch {
	case h.HasAuth() && chat.Guests:
		s.SignIn = signInOptional
	case h.HasAuth():
		s.SignIn = signInRequired
	}
	settings, err := json.Marshal(s)
	if err != nil {
		return err
	}
	var page bytes.Buffer
	err = pageTemplate.Execute(&page, map[string]string{
		"Title": s.Title, "Mode": cmp.Or(chat.Theme.Mode, "auto"), "Base": url.PathEscape(app.Name()), "Settings": string(settings),
	})
	if err != nil {
		return err
	}
	header := w.Header()
	header.Set("Content-Security-Policy", fmt.Sprintf(pageCSP, cmp.Or(strings.Join(chat.Origins, " "), "'none'")))
	header.Set("Content-Type", "text/html; charset=utf-8")
	setFileHeaders(header)
	_, _ = w.Write(page.Bytes())
	return nil
}

func setFileHeaders(h http.Header) {
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache")
}

const themeFile, embedFile = "theme.css", "embed.js"

// handleFile serves a file of the page. Browsers revalidate it on each load.
func (h *handlers) handleFile(w http.ResponseWriter, r *http.Request) error {
	_, chat, err := h.findChat(r)
	if err != nil {
		return err
	}
	name := r.PathValue("file")
	text, err := pageFiles.ReadFile("ui/" + name)
	switch {
	case name == themeFile:
		text = renderTheme(&chat.Theme)
	case err != nil:
		return errNotFound
	}
	header := w.Header()
	setFileHeaders(header)
	if name == embedFile {
		header.Set("Cross-Origin-Resource-Policy", "cross-origin") // for pages that require it
	}
	header.Set("ETag", fmt.Sprintf(`"%x"`, sha256.Sum256(text)))
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(text))
	return nil
}

var fontFamilies = map[string]string{
	"system":  "system-ui, sans-serif",
	"serif":   `ui-serif, Georgia, "Times New Roman", serif`,
	"rounded": `ui-rounded, "SF Pro Rounded", "Hiragino Maru Gothic ProN", Quicksand, Nunito, system-ui, sans-serif`,
	"mono":    "ui-monospace, Menlo, Consolas, monospace",
}

// renderTheme returns the style sheet with an app's variables. Go callers may pass any string, so
// nothing but color digits, a number and a family from the list reaches the style sheet.
func renderTheme(t *Theme) []byte {
	def := DefaultSettings().Theme
	family := cmp.Or(fontFamilies[t.Font], fontFamilies[def.Font])
	pair := func(name, light, dark string) string {
		return fmt.Sprintf("  --%s: light-dark(%s, %s);\n", name, light, dark)
	}
	light, dark := fillColors(t.Light, def.Light), fillColors(t.Dark, def.Dark)
	var b strings.Builder
	b.WriteString(":root {\n")
	b.WriteString(pair("accent", light.Accent, dark.Accent))
	b.WriteString(pair("on-accent", contrastingText(light.Accent), contrastingText(dark.Accent)))
	b.WriteString(pair("back", light.Background, dark.Background))
	b.WriteString(pair("surface", light.Surface, dark.Surface))
	b.WriteString(pair("text", light.Text, dark.Text))
	fmt.Fprintf(&b, "  --font: %s;\n  --round: %dpx;\n}\n", family, min(max(t.Radius, 0), 32))
	return []byte(b.String())
}

func fillColors(c, def Colors) Colors {
	pick := func(color, otherwise string) string {
		if isColor(color) {
			return color
		}
		return otherwise
	}
	return Colors{
		Accent: pick(c.Accent, def.Accent), Background: pick(c.Background, def.Background),
		Surface: pick(c.Surface, def.Surface), Text: pick(c.Text, def.Text),
	}
}

func isColor(text string) bool {
	return len(text) == 7 && text[0] == '#' && strings.Trim(text[1:], "0123456789abcdefABCDEF") == ""
}

// contrastingText returns black or white, whichever is easier to read on a color.
func contrastingText(color string) string {
	const black, white = "#000000", "#ffffff"
	if computeContrast(color, black) > computeContrast(color, white) {
		return black
	}
	return white
}
