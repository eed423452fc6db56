package film

import (
	"bytes"
	"fmt"
	"html"
	"regexp"
	"strings"
	"time"
)

// The picture's measures, in its own units.
const (
	width        = 780
	margin       = 20
	cell         = 8.4 // character width
	rowHeight    = 21
	barHeight    = 36 // a pane's title bar
	editorRows   = 9
	terminalRows = 15
)

// style uses a dark background, which is readable on light and dark pages. Each pane is a frame
// strip, and a clip path shows one frame. With reduced motion, it shows the last frame.
const style = `
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#c9d1d9;white-space:pre}
.key{fill:#79c0ff}.dim{fill:#8b949e}.good{fill:#7ee787}.bad{fill:#ff7b72}.hot{fill:#ffa657}.you{fill:#ffffff;font-weight:600}
.cursor{fill:#58a6ff;opacity:.75}.row{fill:#388bfd;opacity:.13}.bar{fill:#1c2128}
`

// drawSVG returns the recording as SVG.
func (r *recorder) drawSVG() []byte {
	b := new(bytes.Buffer)
	editorHeight, terminalHeight := paneHeight(editorRows), paneHeight(terminalRows)
	height := editorHeight + terminalHeight
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img">`+"\n", width, height)
	fmt.Fprintf(b, "<title>An app is edited during a conversation</title>\n<desc>%s</desc>\n", html.EscapeString(strings.Join(r.screen, "\n")))
	fmt.Fprintf(b, "<style>%s", style)
	b.WriteString(renderAnimation("editor", r.editor, editorHeight, r.now))
	b.WriteString(renderAnimation("terminal", r.terminal, terminalHeight, r.now))
	b.WriteString("</style>\n")
	texts := &textCache{ids: map[string]int{}}
	strips := new(bytes.Buffer)
	texts.drawStrip(strips, "editor", r.editor, pane{0, width, editorHeight, false})
	texts.drawStrip(strips, "terminal", r.terminal, pane{editorHeight, width, terminalHeight, true})
	fmt.Fprintf(b, "<clipPath id=\"window\"><rect width=\"%d\" height=\"%d\" rx=\"10\"/></clipPath>\n<defs>\n%s</defs>\n", width, height, &texts.defs)
	fmt.Fprintf(b, `<g clip-path="url(#window)"><rect width="%d" height="%d" fill="#0d1117"/>`+"\n", width, height)
	b.Write(strips.Bytes())
	fmt.Fprintf(b, `</g><rect x=".5" y=".5" width="%d" height="%d" rx="10" fill="none" stroke="#30363d"/>`+"\n", width-1, height-1)
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func paneHeight(rows int) int { return barHeight + rows*rowHeight + margin }

// renderAnimation returns the CSS animation that moves a strip from frame to frame until end.
func renderAnimation(name string, frames []frame, height int, end time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "#%s{animation:%s %.2fs steps(1,end) infinite}\n@keyframes %s{", name, name, end.Seconds(), name)
	for i, f := range frames {
		fmt.Fprintf(&b, "%.3f%%{transform:translateY(%dpx)}", 100*float64(f.at)/float64(end+time.Millisecond), -i*height)
	}
	fmt.Fprintf(&b, "}\n@media (prefers-reduced-motion:reduce){#%s{animation:none;transform:translateY(%dpx)}}\n", name, -(len(frames)-1)*height)
	return b.String()
}

// pane is a strip's position.
type pane struct {
	y, width, height int
	terminal         bool
}

// textCache stores each line of text once, because frames repeat most lines.
type textCache struct {
	ids  map[string]int
	defs bytes.Buffer
}

func (t *textCache) drawStrip(b *bytes.Buffer, name string, frames []frame, p pane) {
	fmt.Fprintf(b, `<rect class="bar" y="%d" width="%d" height="%d"/>`, p.y, p.width, barHeight-8)
	fmt.Fprintf(b, `<svg x="%d" y="%d" width="%d" height="%d"><g id="%s">`+"\n", margin, p.y, p.width-2*margin, p.height, name)
	for i, f := range frames {
		fmt.Fprintf(b, `<g transform="translate(0 %d)">`, i*p.height)
		// A title may contain a time, which differs between recordings. Do not cache it.
		fmt.Fprintf(b, `<text class="dim" y="21" xml:space="preserve">%s</text>`, html.EscapeString(f.title))
		for row, line := range f.lines {
			y := barHeight + row*rowHeight
			if row == f.row && !p.terminal {
				fmt.Fprintf(b, `<rect class="row" y="%d" width="100%%" height="%d"/>`, y, rowHeight)
			}
			if row == f.row {
				fmt.Fprintf(b, `<rect class="cursor" x="%.1f" y="%d" width="%.1f" height="17"/>`, float64(f.col)*cell, y+2, cell)
			}
			paint := paintYAML
			if p.terminal {
				paint = paintTerminal
			}
			painted := paint(line)
			if f.painted != nil {
				painted = f.painted[row]
			}
			t.placeLine(b, y, line, painted)
		}
		b.WriteString("</g>\n")
	}
	b.WriteString("</g></svg>\n")
}

// placeLine draws a line at y. painted is the line as SVG after "<text ".
func (t *textCache) placeLine(b *bytes.Buffer, y int, line, painted string) {
	if strings.TrimSpace(line) == "" {
		return
	}
	id, ok := t.ids[painted]
	if !ok {
		id = len(t.ids)
		t.ids[painted] = id
		// textLength aligns characters in columns with any font.
		fmt.Fprintf(&t.defs, `<text id="t%d" y="15" xml:space="preserve" textLength="%.1f" lengthAdjust="spacingAndGlyphs" %s</text>`+"\n", id, float64(len([]rune(line)))*cell, painted)
	}
	fmt.Fprintf(b, `<use href="#t%d" y="%d"/>`, id, y)
}

var yamlKey = regexp.MustCompile(`^([ -]*)([a-z_]+:)(.*)$`)

func paintYAML(line string) string {
	m := yamlKey.FindStringSubmatch(line)
	if m == nil {
		return ">" + html.EscapeString(line)
	}
	return ">" + m[1] + `<tspan class="key">` + m[2] + "</tspan>" + html.EscapeString(m[3])
}

// terminalColours selects a line's class by a pattern.
var terminalColours = []struct {
	class string
	line  *regexp.Regexp
}{
	{"you", regexp.MustCompile(`^[$>] `)},
	{"bad", regexp.MustCompile(`^\S+:\d+:\d+: `)},
	{"hot", regexp.MustCompile(`^  \| +\^$`)},
	{"good", regexp.MustCompile(`^` + app + ` was reloaded`)},
	{"hot", regexp.MustCompile(`^` + app + ` was not reloaded`)},
	{"dim", regexp.MustCompile(`^(  |Talking )`)},
}

func paintTerminal(line string) string {
	for _, c := range terminalColours {
		if c.line.MatchString(line) {
			return `class="` + c.class + `">` + html.EscapeString(line)
		}
	}
	return ">" + html.EscapeString(line)
}
