package terminal

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// Markdown becomes lines in two steps: goldmark parses a block into a tree, and each
// node returns its lines for the width that it has. A container, such as a quote, gives its
// children a smaller width and puts its marker before their lines.
//
// Without styles, emphasis, code and headings keep their Markdown marks, because nothing else
// distinguishes them. HTML is shown as it is written. A link shows its address, so that a reader
// sees where it leads.

const (
	// maxIndents limits how many markers for quotes and lists a line shows.
	maxIndents = 8
	// minTextWidth is the number of columns that markers leave for text.
	minTextWidth = 12
)

// newParser returns a parser for CommonMark with GitHub's tables, task lists and strikethrough.
func newParser() parser.Parser {
	return parser.NewParser(
		parser.WithBlockParsers(parser.DefaultBlockParsers()...),
		parser.WithInlineParsers(parser.DefaultInlineParsers()...),
		parser.WithInlineParsers(
			util.Prioritized(extension.NewTaskCheckBoxParser(), 0),
			util.Prioritized(extension.NewStrikethroughParser(), 500),
		),
		parser.WithParagraphTransformers(parser.DefaultParagraphTransformers()...),
		parser.WithParagraphTransformers(util.Prioritized(extension.NewTableParagraphTransformer(), 200)),
		parser.WithASTTransformers(util.Prioritized(extension.NewTableASTTransformer(), 0)),
	)
}

// A renderer renders one source's tree.
type renderer struct {
	source []byte
	styles Styles
	depth  int // of quotes and lists
}

// renderSource renders blocks without a newline at the end.
func renderSource(p parser.Parser, source []byte, width int, styles Styles) string {
	r := renderer{source: source, styles: styles}
	return formatLines(r.renderBlocks(p.Parse(text.NewReader(source)), width, true), styles)
}

// formatLines joins lines, without spaces at their ends.
func formatLines(lines []line, styles Styles) string {
	var b strings.Builder
	for i, l := range lines {
		if i > 0 {
			b.WriteByte('\n')
		}
		end := len(l)
		for end > 0 && strings.TrimRight(l[end-1].text, " ") == "" {
			end--
		}
		for j, s := range l[:end] {
			if j == end-1 {
				s.text = strings.TrimRight(s.text, " ")
			}
			b.WriteString(styles.wrapLook(s.look, s.text))
		}
	}
	return b.String()
}

// renderBlocks renders a node's children, with an empty line between two if they are loose.
func (r *renderer) renderBlocks(parent ast.Node, width int, loose bool) []line {
	var lines []line
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		block := r.renderBlock(n, width)
		if len(block) == 0 {
			continue
		}
		if loose && len(lines) > 0 {
			lines = append(lines, nil)
		}
		lines = append(lines, block...)
	}
	return lines
}

func (r *renderer) renderBlock(n ast.Node, width int) []line {
	switch n := n.(type) {
	case *ast.Heading:
		spans := r.inlineSpans(nil, n, bold)
		if !r.styles.enabled {
			spans = append([]span{{strings.Repeat("#", n.Level) + " ", 0}}, spans...)
		}
		return wrapSpans(spans, width)
	case *ast.Paragraph, *ast.TextBlock:
		return wrapSpans(r.inlineSpans(nil, n, 0), width)
	case *ast.ThematicBreak:
		if width <= 0 || width > 40 {
			width = 40
		}
		return []line{{{strings.Repeat("─", width), faint}}}
	case *ast.Blockquote:
		marker := span{"│ ", faint}
		return r.indentBlock(marker, marker, width, func(width int) []line { return r.renderBlocks(n, width, true) })
	case *ast.List:
		return r.renderList(n, width)
	case *ast.FencedCodeBlock, *ast.CodeBlock:
		var lines []line
		for i := range n.Lines().Len() {
			segment := n.Lines().At(i)
			lines = append(lines, codeLines(segment.Value(r.source), width)...)
		}
		return lines
	case *ast.HTMLBlock:
		var html []byte
		for i := range n.Lines().Len() {
			segment := n.Lines().At(i)
			html = append(html, segment.Value(r.source)...)
		}
		if n.HasClosure() {
			html = append(html, n.ClosureLine.Value(r.source)...)
		}
		return wrapSpans([]span{{Clean(strings.TrimRight(string(html), "\n")), 0}}, width)
	case *extast.Table:
		return r.renderTable(n, width)
	}
	return nil
}

// codeLines renders a line of code, which may end with a newline.
func codeLines(code []byte, width int) []line {
	if width > 0 {
		width = max(width-2, minTextWidth)
	}
	lines := cutLine(Clean(strings.TrimRight(string(code), "\r\n")), width, roleLooks[Code])
	for i, l := range lines {
		lines[i] = append(line{{"  ", 0}}, l...)
	}
	return lines
}

// indentBlock renders a container's content after its markers: first before its first line, next
// before the others.
func (r *renderer) indentBlock(first, next span, width int, render func(width int) []line) []line {
	columns := TextWidth(first.text)
	if r.depth >= maxIndents || width > 0 && width-columns < minTextWidth {
		return render(width) // deeper markers would leave no room for text
	}
	r.depth++
	if width > 0 {
		width -= columns
	}
	lines := render(width)
	r.depth--
	marker := first
	for i, l := range lines {
		lines[i] = append(line{marker}, l...)
		marker = next
	}
	return lines
}

func (r *renderer) renderList(list *ast.List, width int) []line {
	digits := len(fmt.Sprint(list.Start + max(list.ChildCount()-1, 0)))
	number := list.Start
	var lines []line
	for item := list.FirstChild(); item != nil; item = item.NextSibling() {
		marker := "• "
		if list.IsOrdered() {
			marker = fmt.Sprintf("%*d. ", digits, number)
			number++
		}
		rest := span{strings.Repeat(" ", TextWidth(marker)), 0}
		block := r.indentBlock(span{marker, 0}, rest, width, func(width int) []line {
			if content := r.renderBlocks(item, width, !list.IsTight); len(content) > 0 {
				return content
			}
			return []line{nil} // an empty item has its marker
		})
		if !list.IsTight && len(lines) > 0 {
			lines = append(lines, nil)
		}
		lines = append(lines, block...)
	}
	return lines
}

// inlineSpans appends spans for a node's children.
func (r *renderer) inlineSpans(spans []span, parent ast.Node, look look) []span {
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Text:
			spans = append(spans, span{r.plainText(n), look})
			// A model that ends a line means it, as in an address or a poem: CommonMark's soft line
			// breaks are line breaks, as in chats.
			if n.HardLineBreak() || n.SoftLineBreak() {
				spans = append(spans, span{"\n", 0})
			}
		case *ast.String:
			spans = append(spans, span{CleanLine(string(n.Value)), look})
		case *ast.CodeSpan:
			code := strings.Trim(CleanLine(string(r.rawText(n))), " ")
			spans = r.markSpans(spans, "`", []span{{code, look | roleLooks[Code]}})
		case *ast.Emphasis:
			mark, emphasis := "*", italic
			if n.Level == 2 {
				mark, emphasis = "**", bold
			}
			spans = r.markSpans(spans, mark, r.inlineSpans(nil, n, look|emphasis))
		case *extast.Strikethrough:
			spans = r.markSpans(spans, "~~", r.inlineSpans(nil, n, look|strike))
		case *extast.TaskCheckBox:
			box := "[ ] "
			if n.IsChecked {
				box = "[x] "
			}
			spans = append(spans, span{box, look})
		case *ast.Link:
			spans = r.linkSpans(spans, r.inlineSpans(nil, n, look|underline), n.Destination)
		case *ast.Image:
			label := append([]span{{"image: ", look}}, r.inlineSpans(nil, n, look|underline)...)
			spans = r.linkSpans(spans, label, n.Destination)
		case *ast.AutoLink:
			spans = append(spans, span{CleanLine(string(n.URL(r.source))), look | underline})
		case *ast.RawHTML:
			var html []byte
			for i := range n.Segments.Len() {
				segment := n.Segments.At(i)
				html = append(html, segment.Value(r.source)...)
			}
			if tag := string(bytes.ToLower(html)); tag == "<br>" || tag == "<br/>" || tag == "<br />" {
				spans = append(spans, span{"\n", 0})
				continue
			}
			spans = append(spans, span{CleanLine(string(html)), look})
		default:
			spans = r.inlineSpans(spans, n, look)
		}
	}
	return spans
}

// markSpans appends spans, between Markdown's marks if nothing else distinguishes them.
func (r *renderer) markSpans(spans []span, mark string, content []span) []span {
	if r.styles.enabled {
		return append(spans, content...)
	}
	spans = append(spans, span{mark, 0})
	spans = append(spans, content...)
	return append(spans, span{mark, 0})
}

// linkSpans appends a link's label and its address, unless they are the same.
func (r *renderer) linkSpans(spans, label []span, destination []byte) []span {
	address := CleanLine(string(unescapeText(destination)))
	shown := ""
	for _, s := range label {
		shown += s.text
	}
	spans = append(spans, label...)
	if address == "" || shown == address || "mailto:"+shown == address {
		return spans
	}
	return append(spans, span{" (" + address + ")", faint})
}

// plainText returns a text node's clean text. Character references can be control characters, so
// that the result is cleaned, not the source.
func (r *renderer) plainText(n *ast.Text) string {
	value := n.Value(r.source)
	if !n.IsRaw() {
		value = unescapeText(value)
	}
	return CleanLine(string(value))
}

// unescapeText resolves backslashes and character references.
func unescapeText(value []byte) []byte {
	return util.ResolveEntityNames(util.ResolveNumericReferences(util.UnescapePunctuations(value)))
}

// rawText returns the source of a node's text.
func (r *renderer) rawText(parent ast.Node) []byte {
	var raw []byte
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Text:
			raw = append(raw, n.Value(r.source)...)
			if n.SoftLineBreak() {
				raw = append(raw, ' ')
			}
		case *ast.String:
			raw = append(raw, n.Value...)
		}
	}
	return raw
}
