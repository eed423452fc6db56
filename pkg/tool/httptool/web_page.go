package httptool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/html"

	"agenthost/internal/charset"
	"agenthost/internal/limit"
	"agenthost/internal/toolconfig"
	"agenthost/internal/toolhttp"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
)

// load_web_page limits.
const (
	maxPageChars = 100_000
)

// A webPageTool loads a page and returns its text (adk-python tools/load_web_page.py). The URL
// comes from the model: the client's transport decides which addresses it can reach.
type webPageTool struct {
	toolconfig.Declarer
	capabilities tool.Capabilities
	client       *http.Client
}

func newWebPage(_ context.Context, env tool.Env, c *toolconfig.BuiltinConfig) (tool.Set, error) {
	d := toolconfig.NewDeclarer("load_web_page", "Loads a web page and returns its text.",
		toolconfig.ObjectSchema(map[string]any{"url": map[string]any{"type": "string", "description": "The URL of the page."}}, "url"))
	caps, err := c.Call.Capabilities(d.Declaration())
	if caps.Timeout == 0 {
		caps.Timeout = limit.WebPage.Time
	}
	client := http.Client{}
	if env.HTTP != nil {
		client = *env.HTTP
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return tool.One(&webPageTool{d, caps, &client}), err
}

// Capabilities returns the document's settings.
func (t *webPageTool) Capabilities() tool.Capabilities { return t.capabilities }

// Run loads the page. Redirects are not followed, and lines of three words or fewer, such as
// menus, are left out, both as in ADK.
func (t *webPageTool) Run(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	args, err := declare.CheckArgs(ctx, t.Declaration(), call.Args)
	if err != nil {
		return nil, err
	}
	address, _ := args["url"].(string)
	text, err := t.loadPage(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("failed to fetch url: %s: %w", address, err)
	}
	return tool.NewResult(text), nil
}

func (t *webPageTool) loadPage(ctx context.Context, address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", errors.New("the URL must begin with https:// or http://")
	}
	if u.User != nil {
		return "", errors.New("the URL must not contain a password")
	}
	ctx, cancel := context.WithTimeout(ctx, limit.WebPage.Time)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return "", err
	}
	req.Header.Set("User-Agent", toolhttp.UserAgent)
	req.Header.Set("Accept", "text/html, text/plain")
	resp, err := t.client.Do(req)
	if err != nil {
		return "", toolhttp.UnwrapURLError(err)
	}
	defer resp.Body.Close()
	if to, err := resp.Location(); err == nil {
		return "", fmt.Errorf("the page redirects to %s", to)
	}
	if resp.StatusCode != http.StatusOK {
		return "", errors.New(resp.Status)
	}
	return readPage(resp)
}

// readPage returns a page's text, at most maxPageChars characters.
func readPage(resp *http.Response) (string, error) {
	raw, err := io.ReadAll(io.LimitReader(resp.Body, int64(limit.WebPage.Bytes)))
	if err != nil {
		return "", err
	}
	raw = charset.DecodeText(resp.Header.Get("Content-Type"), raw)
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	var text string
	switch {
	case kind == "text/html" || kind == "application/xhtml+xml" || kind == "":
		text = extractText(raw)
	case strings.HasPrefix(kind, "text/") || kind == "application/json":
		text = strings.ToValidUTF8(string(raw), "\uFFFD")
	default:
		return "", fmt.Errorf("the page is not text, but %s", kind)
	}
	if runes := []rune(text); len(runes) > maxPageChars {
		text = string(runes[:maxPageChars]) + "\n… (the page is longer)"
	}
	return text, nil
}

// extractText returns an HTML page's lines with more than three words. It reads tokens, not a tree,
// so that a deeply nested page costs no more than its length.
func extractText(page []byte) string {
	var lines []string
	tokens := html.NewTokenizer(bytes.NewReader(page))
	hidden := ""
	for {
		switch tokens.Next() {
		case html.ErrorToken:
			return strings.Join(lines, "\n")
		case html.StartTagToken:
			if name, _ := tokens.TagName(); hidden == "" && isHiddenElement(string(name)) {
				hidden = string(name)
			}
		case html.EndTagToken:
			if name, _ := tokens.TagName(); string(name) == hidden {
				hidden = ""
			}
		case html.TextToken:
			if hidden != "" {
				continue
			}
			for line := range strings.Lines(strings.ToValidUTF8(string(tokens.Text()), "\uFFFD")) {
				if words := strings.Fields(line); len(words) > 3 {
					lines = append(lines, strings.Join(words, " "))
				}
			}
		}
	}
}

func isHiddenElement(name string) bool {
	switch name {
	case "script", "style", "template", "noscript":
		return true
	}
	return false
}
