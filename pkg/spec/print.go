package spec

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"gopkg.in/yaml.v3"
)

// Print writes a tree as YAML. It redacts secrets, and replaced references in fields
// that may contain secrets, as ***. With origins, each line ends with a comment that
// names its position in the source.
func Print(w io.Writer, n *Node, origins bool) error {
	p := &treePrinter{origins: origins}
	switch {
	case n.isBlock():
		p.writeBlock(n, 0)
	default:
		p.writeLine(p.formatFlow(n), n)
	}
	_, err := w.Write(p.out.Bytes())
	return err
}

type treePrinter struct {
	out     bytes.Buffer
	origins bool
}

// isBlock reports whether a node is printed on lines of its own.
func (n *Node) isBlock() bool { return len(n.Entries) > 0 || len(n.Items) > 0 }

// writeLine writes text as the end of a line, with the position of a node if wanted.
func (p *treePrinter) writeLine(text string, n *Node) {
	p.out.WriteString(text)
	if p.origins && n.Pos.Line > 0 {
		fmt.Fprintf(&p.out, "  # %s:%d", n.Pos.File, n.Pos.Line)
	}
	p.out.WriteByte('\n')
}

func (p *treePrinter) writeBlock(n *Node, depth int) {
	indent := strings.Repeat("  ", depth)
	for _, e := range n.Entries {
		p.out.WriteString(indent)
		p.writeValue(formatScalar(e.Key.Value)+":", e.Value, depth)
	}
	for _, item := range n.Items {
		p.out.WriteString(indent)
		if len(item.Entries) == 0 {
			p.writeValue("-", item, depth)
			continue
		}
		// A mapping starts on the line of its dash.
		inner := &treePrinter{origins: p.origins}
		inner.writeBlock(item, depth+1)
		p.out.WriteString("- ")
		p.out.Write(inner.out.Bytes()[len(indent)+2:])
	}
}

// writeValue writes the value after a key or a dash.
func (p *treePrinter) writeValue(head string, n *Node, depth int) {
	text := n.redactedValue()
	switch {
	case n.isBlock():
		p.writeLine(head, n)
		p.writeBlock(n, depth+1)
	case n.Kind == Scalar && n.Tag == strTag && isLiteral(text):
		p.writeLiteral(head, text, n, depth)
	default:
		p.writeLine(head+" "+p.formatFlow(n), n)
	}
}

// isLiteral reports whether a string is printed as a block scalar.
func isLiteral(text string) bool {
	return strings.Contains(strings.TrimSuffix(text, "\n"), "\n") && !strings.HasPrefix(text, " ") && !strings.HasPrefix(text, "\n") &&
		!strings.HasSuffix(text, "\n\n") && !strings.ContainsAny(text, "\t\r\u0085\u2028\u2029\uFEFF") && !strings.Contains(text, " \n")
}

func (p *treePrinter) writeLiteral(head, text string, n *Node, depth int) {
	mark := " |-"
	if strings.HasSuffix(text, "\n") {
		mark = " |"
	}
	p.writeLine(head+mark, n)
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		if line != "" {
			p.out.WriteString(strings.Repeat("  ", depth+1) + line)
		}
		p.out.WriteByte('\n')
	}
}

func (p *treePrinter) formatFlow(n *Node) string {
	switch {
	case n.Kind == Mapping:
		return "{}"
	case n.Kind == Sequence:
		return "[]"
	case n.Tag != strTag:
		if n.Value == "" {
			return "null"
		}
		return n.Value
	}
	return formatScalar(n.redactedValue())
}

// formatScalar formats a string as a scalar on one line, quoted if necessary.
func formatScalar(text string) string {
	if strings.ContainsAny(text, "\n\r") || resolveTag(text) != strTag || strings.ContainsAny(text, "{}[]#:,&*!|>'\"%@`") {
		return doubleQuote(text)
	}
	raw, err := yaml.Marshal(text)
	if out := strings.TrimSuffix(string(raw), "\n"); err == nil && !strings.Contains(out, "\n") {
		return out
	}
	return doubleQuote(text)
}

func doubleQuote(text string) string {
	raw, err := yaml.Marshal(&yaml.Node{Kind: yaml.ScalarNode, Tag: strTag, Value: text, Style: yaml.DoubleQuotedStyle})
	if out := strings.TrimSuffix(string(raw), "\n"); err == nil && !strings.Contains(out, "\n") {
		return out
	}
	return fmt.Sprintf("%q", text)
}

// redactedValue returns the scalar's value without secrets.
func (n *Node) redactedValue() string {
	switch {
	case n.neverShown && n.Value != "":
		return redacted
	case !n.readAsSecret || len(n.parts) == 0:
		return n.Value
	}
	var b strings.Builder
	copied := 0
	for _, p := range n.parts {
		b.WriteString(n.Value[copied:p.start] + redacted)
		copied = p.end
	}
	return b.String() + n.Value[copied:]
}
