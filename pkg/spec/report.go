package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"unicode"

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

// isBlock reports whether a node is printed on its own lines.
func (n *Node) isBlock() bool { return len(n.Entries) > 0 || len(n.Items) > 0 }

// writeLine writes text as a line's end, with a node's position if wanted.
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
		p.writeValue(formatKey(e.Key)+":", e.Value, depth)
	}
	for _, item := range n.Items {
		p.out.WriteString(indent)
		if !item.isBlock() {
			p.writeValue("-", item, depth)
			continue
		}
		// A mapping or a list starts on the line of its dash.
		inner := &treePrinter{origins: p.origins}
		inner.writeBlock(item, depth+1)
		p.out.WriteString("- ")
		p.out.Write(inner.out.Bytes()[len(indent)+2:])
	}
}

// writeValue writes the value after a key or a dash.
func (p *treePrinter) writeValue(head string, n *Node, depth int) {
	text := n.RedactedValue()
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
	return formatScalar(n.RedactedValue())
}

// formatKey formats a key. A number and a boolean stay what they are.
func formatKey(n *Node) string {
	if n.Tag == intTag || n.Tag == floatTag || n.Tag == boolTag {
		return n.Value
	}
	return formatScalar(n.Value)
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

// RedactedValue returns a scalar's value with secrets redacted as in [Print].
func (n *Node) RedactedValue() string {
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

const (
	// tabStop is the tab width in snippets.
	tabStop = 4
	// snippetWidth limits the printed part in a long line.
	snippetWidth = 120
	// maxSnippet is the length of the longest line printed as a snippet.
	maxSnippet = 16 << 10
)

// WriteText writes each problem as "file:line:col: message [rule]", followed by the
// source line, a caret under the column, and the hint, if known.
func (ds Diagnostics) WriteText(w io.Writer) error {
	var b strings.Builder
	for _, d := range ds {
		b.WriteString(d.String() + "\n")
		d.writeSnippet(&b)
		if d.Hint != "" {
			b.WriteString("hint: " + d.Hint + "\n")
		}
		if len(d.Also) > 0 {
			b.WriteString("also: " + d.alsoText() + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// maxAlso limits the printed other places.
const maxAlso = 5

func (d Diagnostic) alsoText() string {
	var words []string
	for _, p := range d.Also[:min(len(d.Also), maxAlso)] {
		words = append(words, p.Pos.String())
	}
	if len(d.Also) > maxAlso {
		words = append(words, "…")
	}
	return strings.Join(words, ", ")
}

func (d Diagnostic) writeSnippet(b *strings.Builder) {
	if d.Pos.Line == 0 || len(d.Source) > maxSnippet || strings.TrimSpace(d.Source) == "" {
		return
	}
	cells, caret := layoutCells(d.Source, d.Pos.Col)
	from := 0
	if caret >= snippetWidth {
		from = caret - snippetWidth/2
	}
	to := min(len(cells), from+snippetWidth)
	text := strings.TrimRight(strings.Join(cells[from:to], ""), " ")
	b.WriteString("  | " + text + "\n")
	b.WriteString("  | " + strings.Repeat(" ", caret-from) + "^\n")
}

// layoutCells spreads a line over terminal cells and returns a column's cell. A wide character
// occupies two cells; the second one is empty.
func layoutCells(line string, col int) (cells []string, caret int) {
	n := 1
	for _, r := range line {
		if n == col {
			caret = len(cells)
		}
		cells = appendRune(cells, r)
		n++
	}
	if col >= n {
		caret = len(cells)
	}
	return cells, caret
}

func appendRune(cells []string, r rune) []string {
	switch {
	case r == '\t':
		cells = append(cells, " ")
		for len(cells)%tabStop != 0 {
			cells = append(cells, " ")
		}
		return cells
	case unicode.IsControl(r):
		return append(cells, "\uFFFD")
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) && len(cells) > 0:
		cells[len(cells)-1] += string(r)
		return cells
	case isWide(r):
		return append(cells, string(r), "")
	}
	return append(cells, string(r))
}

// isWide reports whether terminals display the character in two cells: East Asian
// scripts, their punctuation and full-width forms, and emoji.
func isWide(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana) ||
		r >= 0x3000 && r <= 0x303E || r >= 0xFF01 && r <= 0xFF60 || r >= 0x1F300 && r <= 0x1FAFF
}

// sarifSchema is the SARIF 2.1.0 schema's URL.
const sarifSchema = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

// The SARIF subset that WriteSARIF uses.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool       sarifTool     `json:"tool"`
		ColumnKind string        `json:"columnKind"`
		Results    []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version,omitempty"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID string `json:"id"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		RuleIndex int             `json:"ruleIndex"`
		Level     string          `json:"level"`
		Message   sarifMessage    `json:"message"`
		Locations []sarifLocation `json:"locations"`
		Fixes     []sarifFix      `json:"fixes,omitempty"`
	}
	sarifMessage struct {
		Text string `json:"text"`
	}
	sarifLocation struct {
		Physical sarifPhysical `json:"physicalLocation"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine   int           `json:"startLine"`
		StartColumn int           `json:"startColumn"`
		EndColumn   int           `json:"endColumn,omitempty"`
		Snippet     *sarifMessage `json:"snippet,omitempty"`
	}
	sarifFix struct {
		Description sarifMessage  `json:"description"`
		Changes     []sarifChange `json:"artifactChanges"`
	}
	sarifChange struct {
		Artifact     sarifArtifact      `json:"artifactLocation"`
		Replacements []sarifReplacement `json:"replacements"`
	}
	sarifReplacement struct {
		Deleted  sarifRegion  `json:"deletedRegion"`
		Inserted sarifMessage `json:"insertedContent"`
	}
)

// WriteSARIF writes the problems as a SARIF 2.1.0 log for code review services. version is the
// program's version. Columns count characters.
func (ds Diagnostics) WriteSARIF(w io.Writer, version string) error {
	rules := []string{}
	for _, d := range ds {
		rules = append(rules, d.Rule)
	}
	slices.Sort(rules)
	rules = slices.Compact(rules)
	run := sarifRun{ColumnKind: "unicodeCodePoints", Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{Name: "agenthost", Version: version, Rules: []sarifRule{}}
	for _, id := range rules {
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{id})
	}
	for _, d := range ds {
		r := d.toSARIF()
		r.RuleIndex, _ = slices.BinarySearch(rules, d.Rule)
		run.Results = append(run.Results, r)
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(sarifLog{sarifSchema, "2.1.0", []sarifRun{run}})
}

func (d Diagnostic) toSARIF() sarifResult {
	at := sarifPhysical{Artifact: sarifArtifact{fileURI(d.Pos.File)}}
	if d.Pos.Line > 0 {
		at.Region = &sarifRegion{StartLine: d.Pos.Line, StartColumn: d.Pos.Col}
		if d.Source != "" && len(d.Source) <= maxSnippet {
			at.Region.Snippet = &sarifMessage{d.Source}
		}
	}
	r := sarifResult{
		RuleID: d.Rule, Level: d.Severity.String(), Message: sarifMessage{d.fullText()},
		Locations: []sarifLocation{{at}},
	}
	if f := d.Fix; f != (Fix{}) {
		r.Fixes = []sarifFix{{
			Description: sarifMessage{"replace with " + f.New},
			Changes: []sarifChange{{at.Artifact, []sarifReplacement{{
				Deleted:  sarifRegion{StartLine: f.Line, StartColumn: f.Col, EndColumn: f.Col + len([]rune(f.Old))},
				Inserted: sarifMessage{f.New},
			}}}},
		}}
	}
	return r
}

// fullText returns the message, the hint and the other places.
func (d Diagnostic) fullText() string {
	text := d.Message
	if d.Hint != "" {
		text += "\n" + d.Hint
	}
	if len(d.Also) > 0 {
		text += "\nalso: " + d.alsoText()
	}
	return text
}

// fileURI returns a path as a URI reference.
func fileURI(path string) string {
	u := url.URL{Path: path}
	if strings.HasPrefix(path, "/") {
		u.Scheme = "file"
	}
	return u.String()
}

// WriteGitHub writes the problems as GitHub Actions workflow commands, which annotate the lines.
func (ds Diagnostics) WriteGitHub(w io.Writer) error {
	var b strings.Builder
	for _, d := range ds {
		fmt.Fprintf(&b, "::%s file=%s", d.Severity, escapeProperty(d.Pos.File))
		if d.Pos.Line > 0 {
			fmt.Fprintf(&b, ",line=%d,col=%d", d.Pos.Line, d.Pos.Col)
		}
		fmt.Fprintf(&b, ",title=%s::%s\n", escapeProperty(d.Rule), escapeCommand(d.fullText()))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func escapeCommand(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

func escapeProperty(s string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(escapeCommand(s))
}
