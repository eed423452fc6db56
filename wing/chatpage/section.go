package chatpage

import (
	"context"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"agenthost/pkg/loader"
	"agenthost/pkg/spec"
)

// sectionKey is the key in app.yaml, and the rule of its problems.
const sectionKey = "chat"

// Section returns the kind of chat in app.yaml.
func Section() spec.Kind[loader.SectionEnv, any] {
	return spec.NewKind(sectionKey, "A chat page for end users at /chat/APP; an empty mapping offers it with its defaults. See [chat.md](chat.md).",
		func(_ context.Context, _ loader.SectionEnv, c *sectionConfig) (any, error) {
			return c.buildSettings(), nil
		})
}

// sectionConfig is chat. All that a browser receives is checked here, so that a theme cannot contain
// other CSS, and a policy no other directive.
type sectionConfig struct {
	Title       string      `yaml:"title" doc:"Heading of the page, at most 80 characters. Default: the app's name."`
	Welcome     string      `yaml:"welcome" doc:"Text in Markdown before the first message, at most 2000 characters."`
	Suggestions []string    `yaml:"suggestions" doc:"First messages that a user sends with one click: at most 6, each with at most 200 characters."`
	Guests      bool        `yaml:"guests" doc:"On a host with authentication, let visitors chat without a token. Each browser is a user of its own. Without authentication, all visitors are guests."`
	Origins     []string    `yaml:"origins" doc:"Origins of the pages that may embed the chat, such as https://shop.example: https, or http for a loopback name. Default: none."`
	Uploads     []string    `yaml:"uploads" doc:"Media types of the files that users may send, such as application/pdf or image/*; [] for none. Default: image/*, application/pdf and text/plain."`
	Show        []string    `yaml:"show" enum:"thoughts|tools" doc:"What users see besides answers: thoughts of models, and names of tools while they run. Default: neither."`
	Voice       bool        `yaml:"voice" doc:"Let users talk: the page has a microphone button. The model must be one for live conversations; see [live.md](live.md)."`
	Theme       themeConfig `yaml:"theme" doc:"Look of the page."`
}

// themeConfig is chat.theme.
type themeConfig struct {
	Mode   string      `yaml:"mode" enum:"auto|light|dark" default:"auto" doc:"Colors: those of the user's system, or always the light or the dark ones."`
	Font   string      `yaml:"font" enum:"system|serif|rounded|mono" default:"system" doc:"Font family."`
	Radius int         `yaml:"radius" default:"14" doc:"Radius of corners in pixels, from 0 to 32."`
	Light  lightColors `yaml:"light" doc:"Light colors."`
	Dark   darkColors  `yaml:"dark" doc:"Dark colors."`
}

// The colors differ by their defaults only.
type (
	lightColors struct {
		Accent     string `yaml:"accent" default:"#1a5fb4" doc:"Color of buttons and of the user's messages, as #rrggbb. Text on it is black or white."`
		Background string `yaml:"background" default:"#ffffff" doc:"Color of the page."`
		Surface    string `yaml:"surface" default:"#f1f2f4" doc:"Color of fields and questions."`
		Text       string `yaml:"text" default:"#1c1f23" doc:"Color of text. Its contrast with background and surface must be at least 4.5."`
	}
	darkColors struct {
		Accent     string `yaml:"accent" default:"#86b7f5" doc:"As in light."`
		Background string `yaml:"background" default:"#15171a" doc:"As in light."`
		Surface    string `yaml:"surface" default:"#23272c" doc:"As in light."`
		Text       string `yaml:"text" default:"#e6e8eb" doc:"As in light."`
	}
)

// Limits for chat.
const (
	maxChatTitle      = 80
	maxChatWelcome    = 2000
	maxSuggestions    = 6
	maxSuggestion     = 200
	maxChatOrigins    = 20
	maxChatUploads    = 20
	maxChatRadius     = 32
	minChatContrast   = 4.5 // WCAG 2.2, 1.4.3
	chatColorExpected = "must be a color such as #1a5fb4"
)

var (
	chatColor = regexp.MustCompile(`^#[0-9a-fA-F]{6}$`)
	mediaType = regexp.MustCompile(`^[a-z]+/(\*|[a-z0-9][a-z0-9.+-]{0,80})$`)
)

// Check reports values that are not in their range or form, at their position in n, the mapping
// that the config was decoded from.
func (c *sectionConfig) Check(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	checkText := func(at *spec.Node, name, text string, most int) {
		if size := utf8.RuneCountInString(text); size > most {
			ds = append(ds, at.Errorf(sectionKey, "%s exceeds the limit of %d characters", name, most))
		}
	}
	checkCount := func(key string, count, most int) {
		if count > most {
			ds = append(ds, n.Get(key).Errorf(sectionKey, "%s exceeds the limit of %d, got %d", key, most, count))
		}
	}
	checkText(n.Get("title"), "title", c.Title, maxChatTitle)
	checkText(n.Get("welcome"), "welcome", c.Welcome, maxChatWelcome)
	checkCount("suggestions", len(c.Suggestions), maxSuggestions)
	checkCount("origins", len(c.Origins), maxChatOrigins)
	checkCount("uploads", len(c.Uploads), maxChatUploads)
	for i, text := range c.Suggestions {
		at := n.Get("suggestions").Items[i]
		if strings.TrimSpace(text) == "" {
			ds = append(ds, at.Errorf(sectionKey, "a suggestion must not be empty"))
		}
		checkText(at, "a suggestion", text, maxSuggestion)
	}
	for i, origin := range c.Origins {
		if !isChatOrigin(origin) {
			ds = append(ds, n.Get("origins").Items[i].Errorf(sectionKey, "%q is not an origin", origin).
				WithHint("write the scheme, the host and, if it is not the default one, the port: https://shop.example, or http://localhost:3000"))
		}
	}
	for i, upload := range c.Uploads {
		if !mediaType.MatchString(upload) {
			ds = append(ds, n.Get("uploads").Items[i].Errorf(sectionKey, "%q is not a media type", upload).
				WithHint("write application/pdf, or image/* for all images"))
		}
	}
	return append(ds, c.Theme.checkTheme(n.Get("theme"))...)
}

// isChatOrigin reports whether text is an origin that may embed the chat. It becomes a part of a
// policy, so only letters, digits, dots, hyphens, brackets and colons are allowed.
func isChatOrigin(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme+"://"+u.Host != text || !regexp.MustCompile(`^[a-zA-Z0-9.\-\[\]:]+$`).MatchString(u.Host) {
		return false
	}
	if port, err := strconv.Atoi(u.Port()); u.Port() != "" && (err != nil || port < 1 || port > 65535) {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	isLoopback := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	return u.Hostname() != "" && (u.Scheme == "https" || u.Scheme == "http" && isLoopback)
}

// checkTheme reports problems at their position in n, which is nil without a theme.
func (t *themeConfig) checkTheme(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	if t.Radius < 0 || t.Radius > maxChatRadius {
		ds = append(ds, n.Get("radius").Errorf(sectionKey, "radius must be from 0 to %d, got %d", maxChatRadius, t.Radius))
	}
	for _, set := range []struct {
		key    string
		colors Colors
	}{{"light", Colors(t.Light)}, {"dark", Colors(t.Dark)}} {
		at := n.Get(set.key)
		if at == nil {
			continue
		}
		c, valid := set.colors, true
		for _, color := range [][2]string{{"accent", c.Accent}, {"background", c.Background}, {"surface", c.Surface}, {"text", c.Text}} {
			if !chatColor.MatchString(color[1]) {
				valid = false
				ds = append(ds, at.Get(color[0]).Errorf(sectionKey, "%s %s, got %q", color[0], chatColorExpected, color[1]))
			}
		}
		for _, back := range [][2]string{{"background", c.Background}, {"surface", c.Surface}} {
			if !valid {
				break
			}
			if ratio := computeContrast(c.Text, back[1]); ratio < minChatContrast {
				ds = append(ds, at.Errorf(sectionKey, "the contrast between text %s and %s %s is %.1f, and must be at least %.1f", c.Text, back[0], back[1], ratio, minChatContrast))
			}
		}
	}
	return ds
}

// buildSettings returns the settings that the handlers use.
func (c *sectionConfig) buildSettings() *Settings {
	t, uploads := c.Theme, c.Uploads
	if uploads == nil {
		uploads = DefaultSettings().Uploads
	}
	return &Settings{
		Title: c.Title, Welcome: c.Welcome, Suggestions: c.Suggestions, Guests: c.Guests, Origins: c.Origins, Uploads: uploads,
		ShowThoughts: slices.Contains(c.Show, "thoughts"), ShowTools: slices.Contains(c.Show, "tools"), Voice: c.Voice,
		Theme: Theme{Mode: t.Mode, Font: t.Font, Radius: t.Radius, Light: Colors(t.Light), Dark: Colors(t.Dark)},
	}
}
