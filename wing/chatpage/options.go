package chatpage

import (
	"math"
	"strconv"
)

// Settings configure an app's chat page: chat in app.yaml.
type Settings struct {
	// Title is the page's heading; empty means the app's name.
	Title string
	// Welcome is text in Markdown before the first message.
	Welcome string
	// Suggestions are first messages that a user can send with one click.
	Suggestions []string
	// Guests lets visitors chat without a token on a host that authenticates callers.
	Guests bool
	// Origins are the pages' origins that may embed the chat, such as https://shop.example.
	Origins []string
	// Uploads are the media types of files that users may send, such as image/*; empty means none.
	Uploads []string
	// ShowThoughts and ShowTools let the page receive models' thoughts and the names of running
	// tools.
	ShowThoughts, ShowTools bool
	// Voice lets users talk to an app whose model holds live conversations.
	Voice bool
	Theme Theme
}

// A Theme is the chat page's look.
type Theme struct {
	// Mode is auto, which follows the user's system, light or dark; Font is system, serif, rounded
	// or mono.
	Mode, Font string
	// Radius is the corners' radius in CSS pixels.
	Radius      int
	Light, Dark Colors
}

// Colors are colors as #rrggbb.
type Colors struct{ Accent, Background, Surface, Text string }

// DefaultSettings returns the settings of an app whose app.yaml has chat: {}.
func DefaultSettings() *Settings {
	return &Settings{
		Uploads: []string{"image/*", "application/pdf", "text/plain"},
		Theme: Theme{
			Mode: "auto", Font: "system", Radius: 14,
			Light: Colors{Accent: "#1a5fb4", Background: "#ffffff", Surface: "#f1f2f4", Text: "#1c1f23"},
			Dark:  Colors{Accent: "#86b7f5", Background: "#15171a", Surface: "#23272c", Text: "#e6e8eb"},
		},
	}
}

// computeContrast returns the contrast of two colors as #rrggbb, from 1 to 21 (WCAG 2.2, relative
// luminance). Other text counts as black.
func computeContrast(a, b string) float64 {
	bright, dark := computeLuminance(a), computeLuminance(b)
	return (max(bright, dark) + 0.05) / (min(bright, dark) + 0.05)
}

func computeLuminance(color string) float64 {
	var sum float64
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		if len(color) != 7 {
			return 0
		}
		v, err := strconv.ParseUint(color[1+2*i:3+2*i], 16, 8)
		if err != nil {
			return 0
		}
		c := float64(v) / 255
		if c <= 0.04045 {
			sum += weight * c / 12.92
		} else {
			sum += weight * math.Pow((c+0.055)/1.055, 2.4)
		}
	}
	return sum
}
