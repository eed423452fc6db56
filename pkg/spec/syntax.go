package spec

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// newSyntaxError explains a YAML parser error, with its position.
func newSyntaxError(file string, src *source, dec *yaml.Decoder, err error) Diagnostic {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	pos := Pos{file, 1, 1}
	if m := regexp.MustCompile(`^line (\d+): `).FindStringSubmatch(message); m != nil {
		message = message[len(m[0]):]
		pos.Line, _ = strconv.Atoi(m[1])
	}
	if at, ok := parserPos(dec, message); ok {
		pos.Line, pos.Col = at.Line, at.Col
	}
	pos = src.clampPos(pos)
	d := Diagnostic{Pos: pos, Rule: "yaml", Message: message, Source: src.lineText(pos.Line)}
	return explainSyntax(d, src)
}

// parserPos reads the parser's position from its unexported fields: the line in its errors is
// sometimes missing or one too low, and there is no column. The parser is no longer developed;
// without these fields, the error's line is used.
func parserPos(dec *yaml.Decoder, message string) (Pos, bool) {
	outer := fieldByName(reflect.ValueOf(dec), "parser")
	parser := fieldByName(outer, "parser")
	problem, context := parserMark(parser, "problem_mark"), parserMark(parser, "context_mark")
	switch {
	case strings.HasPrefix(message, "unknown anchor"):
		at := parserMark(fieldByName(outer, "event"), "start_mark")
		return at, at.Line > 0
	case message != fieldByName(parser, "problem").String():
		return Pos{}, false
	// Report an unclosed value at its start.
	case strings.HasPrefix(message, "found unexpected"), strings.HasPrefix(message, "could not find expected ':'"):
		return context, context.Line > 0
	}
	return problem, problem.Line > 0
}

// fieldByName returns a field in a struct or in a struct that a pointer refers to, or the zero
// Value if there is none.
func fieldByName(v reflect.Value, name string) reflect.Value {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	return v.FieldByName(name)
}

func parserMark(v reflect.Value, name string) Pos {
	mark := fieldByName(v, name)
	line, col := fieldByName(mark, "line"), fieldByName(mark, "column")
	if !line.CanInt() || !col.CanInt() {
		return Pos{}
	}
	return Pos{Line: int(line.Int()) + 1, Col: int(col.Int()) + 1}
}

// explainSyntax replaces the parser's message by a clearer one, if there is one.
func explainSyntax(d Diagnostic, src *source) Diagnostic {
	if explained, ok := explainNoBreakSpace(d, src); ok {
		return explained
	}
	here := src.textFrom(d.Pos)
	before := strings.TrimSuffix(d.Source, here)
	switch message := d.Message; {
	case strings.HasPrefix(strings.TrimSpace(d.Source), "//"):
		return explainSlashes(d, src, d.Pos.Line)
	case strings.HasPrefix(strings.TrimSpace(src.lineAbove(d.Pos.Line)), "//"):
		return explainSlashes(d, src, src.numberAbove(d.Pos.Line))
	case message == missingKey && strings.HasSuffix(before, "'") && here != "" && unicode.IsLetter(rune(here[0])):
		d.Message = "the apostrophe before this ends the string"
		return d.WithHint(`inside '…', write '' for an apostrophe, or put the string in "…"`)
	case strings.HasPrefix(message, "unknown anchor"):
		name := strings.Split(message, "'")[1]
		d.Message = "anchor &" + name + " is not defined before this alias"
		return d.WithHint("write &%s before the value that it stands for, or quote text that begins with *", name)
	case strings.HasPrefix(message, "found character that cannot start any token"):
		return explainStart(d, here)
	case leadingBrace.MatchString(d.Source):
		d.Message, d.Pos.Col = "text cannot start with {", strings.Index(d.Source, "{")+1
		text := strings.TrimRight(d.Source[d.Pos.Col-1:], " \t\r")
		return d.WithHint("quote it, or write it as a block under %s: |", leadingBrace.FindStringSubmatch(d.Source)[1]).WithProposal(text, strconv.Quote(text))
	case strings.HasPrefix(message, "did not find expected ',' or"):
		return explainFlow(d, here)
	case message == "could not find expected ':'" && unspacedKey.MatchString(src.lineText(d.Pos.Line)):
		d.Message = `expected ":" and a space after this key`
		return d.WithHint("put a space after the colon: %s", unspacedKey.ReplaceAllString(strings.TrimSpace(src.lineText(d.Pos.Line)), "$1: $2"))
	case (message == notAllowedColon || message == missingKey) && isDeeper(d, src):
		return explainIndent(d, src)
	case (message == missingKey || message == missingDash) && explainColumn(&d, src):
		return d
	default:
		if words, ok := describeSyntaxError(message); ok {
			d.Message, d.Hint = words[0], words[1]
		}
	}
	return d
}

// leadingBrace matches text that starts with a placeholder, which YAML parses as a
// mapping.
var leadingBrace = regexp.MustCompile(`^[ -]*([\w-]+): *\{[^{}]*\} *[^ #,}\]]`)

// unspacedKey matches key:value, which YAML parses as one string.
var unspacedKey = regexp.MustCompile(`^\s*([A-Za-z_][\w-]*):([^\s:/].*)$`)

func explainStart(d Diagnostic, here string) Diagnostic {
	if strings.HasPrefix(here, "\t") {
		d.Message, d.Hint = "tabs are not allowed for indentation", "indent with spaces"
		return d
	}
	first, _ := utf8.DecodeRuneInString(here)
	d.Message = fmt.Sprintf("text cannot start with %c", first)
	return d.WithHint("put it in quotes")
}

// explainFlow explains what YAML 1.1 does not allow inside [ ] and { }: text that ends
// with a question mark, and ${…}.
func explainFlow(d Diagnostic, here string) Diagnostic {
	end := strings.TrimPrefix(d.Message, "did not find expected ',' or ")
	d.Message = `expected "," or "` + strings.Trim(end, "'") + `" here`
	before := strings.TrimSuffix(d.Source, here)
	word := before[strings.LastIndexAny(before, " ,:{[")+1:]
	switch {
	case strings.HasPrefix(here, "??") || strings.HasPrefix(here, "? "):
		return withQuotesFix(d.WithHint("quote expressions with ? inside { } and [ ]"))
	case strings.HasPrefix(here, "?"):
		return withQuotesFix(d.WithHint(`quote text with ? inside { } and [ ]: "%s?"`, word))
	case strings.HasPrefix(here, "{") && strings.HasSuffix(word, "$"):
		reference, _, _ := strings.Cut(here, "}")
		return withQuotesFix(d.WithHint(`quote text with { } inside { } and [ ]: "%s%s}"`, word, reference))
	}
	return d.WithHint(`close every [ and {, and quote text with , [ ] { } or ": "`)
}

// describeSyntaxError returns the message and the hint for common parser messages.
func describeSyntaxError(message string) ([2]string, bool) {
	words, ok := map[string][2]string{
		notAllowedColon: {
			`a ":" is not allowed here`,
			`quote text that contains ": " and expressions with ? and :, or check the indentation of this line and the one above`,
		},
		"block sequence entries are not allowed in this context": {
			`a "- " is not allowed here`, "start the list on a new line",
		},
		missingKey: {
			"expected a key here", "check the indentation and the quotes before this position",
		},
		missingDash: {
			`expected "- " here`, "start every list item in the same column",
		},
		"did not find expected node content": {
			"expected a value here", "quote text that starts with , ] or }",
		},
		"did not find expected <document start>": {
			"unexpected content after the end of the document", "check the indentation",
		},
		"could not find expected ':'": {
			`expected ":" after this key`, "indent multi-line text, or write it as a block under key: |",
		},
		"found unexpected end of stream":      {"the quote opened here is not closed", ""},
		"found unexpected document indicator": {"the quote opened here is not closed", ""},
		"found unknown escape character":      {"unknown escape sequence in a quoted string", `inside "…", write \\ for a backslash, or use '…'`},
		"found invalid Unicode character escape code": {
			"invalid character in a \\u escape", "write the character itself",
		},
		"did not find expected hexdecimal number": {"\\x or \\u escape without hexadecimal digits", ""},
		"found a tab character that violates indentation": {
			"tabs are not allowed for indentation", "indent with spaces",
		},
		"found a tab character where an indentation space is expected": {
			"tabs are not allowed for indentation", "indent with spaces",
		},
		"did not find expected comment or line break": {
			"only a comment may follow | or > on the same line", "start the text on the next line",
		},
		"found undefined tag handle": {"unknown tag", "quote text that starts with !"},
	}[message]
	return words, ok
}

// The parser's messages for a key that is indented too deep: it continues the text in the line
// above, or follows a comment.
const (
	notAllowedColon = "mapping values are not allowed in this context"
	missingKey      = "did not find expected key"
	missingDash     = "did not find expected '-' indicator"
)

// keyOfLine matches a line that starts with a key, optionally with a value. A list item's "- "
// counts as indentation.
var keyOfLine = regexp.MustCompile(`^((?: |- )*)([A-Za-z_][\w-]*):(?: +([^\s#].*))?$`)

// isDeeper reports whether the problem is a key that is indented deeper than the key in the line
// above, which already has a value.
func isDeeper(d Diagnostic, src *source) bool {
	line := keyOfLine.FindStringSubmatch(strings.TrimRight(src.lineText(d.Pos.Line), " \r"))
	above := keyOfLine.FindStringSubmatch(src.lineAbove(d.Pos.Line))
	if line == nil || above == nil || above[3] == "" {
		return false
	}
	start := len(line[1])
	return (d.Pos.Col == start+1 || d.Pos.Col == start+len(line[2])+1) && start > len(above[1])
}

// explainIndent explains a problem for which isDeeper is true.
func explainIndent(d Diagnostic, src *source) Diagnostic {
	line := keyOfLine.FindStringSubmatch(strings.TrimRight(src.lineText(d.Pos.Line), " \r"))
	above := keyOfLine.FindStringSubmatch(src.lineAbove(d.Pos.Line))
	d.Pos.Col = len(line[1]) + 1
	d.Message = "this line is indented deeper than the line above"
	return d.WithHint("start %s in column %d, below %s, or quote the text above if this line is part of it", line[2], len(above[1])+1, above[2])
}

// explainColumn explains a key or a list item that begins in a column where no block above continues:
// it belongs to the nearest one. It returns false for other problems.
func explainColumn(d *Diagnostic, src *source) bool {
	line := strings.TrimRight(src.lineText(d.Pos.Line), " \r")
	text := strings.TrimLeft(line, " ")
	indent := len(line) - len(text)
	if d.Pos.Col != indent+1 {
		return false
	}
	isItem := strings.HasPrefix(text, "- ")
	if key := keyOfLine.FindStringSubmatch(line); key != nil && !isItem {
		text = key[2]
	}
	column, below := -1, ""
	consider := func(at int, name string) {
		if column < 0 || max(at-indent, indent-at) < max(column-indent, indent-column) {
			column, below = at, name
		}
	}
	isText := true // the lines directly above may be those of a block
	limit := maxColumn
	for number := src.numberAbove(d.Pos.Line); number > 0 && limit > 0; number = src.numberAbove(number) {
		above := strings.TrimRight(src.lineText(number), " \r")
		start := len(above) - len(strings.TrimLeft(above, " "))
		key := keyOfLine.FindStringSubmatch(above)
		if isText && key != nil && (strings.HasPrefix(key[3], "|") || strings.HasPrefix(key[3], ">")) && start < indent && limit < maxColumn {
			d.Message = "unexpected indentation"
			*d = d.WithHint("start this line in column %d, as the text above, which belongs to %s", limit+1, key[2])
			return true
		}
		isText = isText && key == nil
		if start >= limit {
			continue
		}
		limit = start
		at := start
		for item := above[start:]; strings.HasPrefix(item, "- "); item = above[at:] {
			if isItem {
				consider(at, "the item above")
			}
			at += len(item) - len(strings.TrimLeft(item[1:], " "))
		}
		if key != nil && !isItem {
			consider(at, key[2])
		}
	}
	if column < 0 || column == indent {
		return false
	}
	if isItem {
		text = "this item"
	}
	d.Message = "unexpected indentation"
	*d = d.WithHint("start %s in column %d, below %s", text, column+1, below)
	return true
}

// maxColumn is deeper than any line.
const maxColumn = 1 << 30

// explainSlashes explains a comment as in JavaScript, which is in a line.
func explainSlashes(d Diagnostic, src *source, number int) Diagnostic {
	d.Pos.Line, d.Source = number, src.lineText(number)
	d.Pos.Col = strings.Index(d.Source, "//") + 1
	d.Message = "a comment cannot begin with //"
	return d.WithHint("begin it with #")
}

// lineAbove returns the previous line that is neither empty nor a comment.
func (s *source) lineAbove(number int) string {
	return strings.TrimRight(s.lineText(s.numberAbove(number)), " \r")
}

// numberAbove returns the number of the previous line that is neither empty nor a comment, or 0.
func (s *source) numberAbove(number int) int {
	for number--; number > 0; number-- {
		if text := strings.TrimSpace(s.lineText(number)); text != "" && text[0] != '#' {
			return number
		}
	}
	return 0
}

// withQuotesFix adds a fix to a problem inside { } or [ ]: quotes around the plain text. It adds
// none if that text's start or end is ambiguous.
func withQuotesFix(d Diagnostic) Diagnostic {
	at := 0
	for range d.Pos.Col - 1 {
		_, size := utf8.DecodeRuneInString(d.Source[at:])
		at += size
	}
	from, to := plainTextStart(d.Source[:at]), at+plainTextEnd(d.Source[at:])
	text := strings.TrimSpace(d.Source[from:to])
	from += strings.Index(d.Source[from:to], text)
	if text == "" || to == len(d.Source) || isInsideQuotes(d.Source[:from]) || !isSafeToQuote(text) {
		return d
	}
	d.Fix = Fix{Line: d.Pos.Line, Col: utf8.RuneCountInString(d.Source[:from]) + 1, Old: text, New: `"` + text + `"`}
	return d
}

// isInsideQuotes reports whether the text after before may be inside quotes or a
// comment.
func isInsideQuotes(before string) bool {
	return strings.Count(before, `"`)%2 > 0 || strings.Count(before, "'")%2 > 0 || strings.Contains(before, " #")
}

// isSafeToQuote reports whether quotes do not change a plain text's value.
func isSafeToQuote(text string) bool {
	return !strings.ContainsAny(text, "\"'\\#&*!|>@`") && !strings.Contains(text, ": ") &&
		strings.Count(text, "(") == strings.Count(text, ")")
}

// plainTextStart returns the start of the text at the end of before: after a bracket, a comma, or
// its key's colon.
func plainTextStart(before string) int {
	start := strings.LastIndexAny(before, "{[,") + 1
	if colon := strings.LastIndex(before, ": "); colon >= start {
		start = colon + 2
	}
	return start
}

// plainTextEnd returns the end of the text at the start of here: before a comma or a closing
// bracket, except for the braces in ${env:X}.
func plainTextEnd(here string) int {
	depth := 0
	for i, r := range here {
		switch {
		case r == '{':
			depth++
		case r == '}' && depth > 0:
			depth--
		case depth == 0 && strings.ContainsRune(",}]", r):
			return i
		}
	}
	return len(here)
}

// Characters pasted from a word processor or a web page that look like YAML syntax but are ordinary
// text in YAML.
const (
	noBreakSpace     = "\u00a0\u202f"
	typographicQuote = "“”„‟«»‘’‚‹›"
)

// spacedKey matches a key with a no-break space after its colon.
var spacedKey = regexp.MustCompile(`^([A-Za-z_][\w-]*):[\x{a0}\x{202f}]`)

// misplacedSpace matches a no-break space where YAML needs a space: in the indentation, or after a
// key's colon.
var misplacedSpace = regexp.MustCompile(`^(?: *(?:- +)?[A-Za-z_][\w-]*:| *-|\s*)[\x{a0}\x{202f}]`)

// explainNoBreakSpace checks a problem's line and the line above for a no-break space that breaks
// the syntax.
func explainNoBreakSpace(d Diagnostic, src *source) (Diagnostic, bool) {
	layoutErrors := []string{ // of a line that does not match the layout above
		"mapping values are not allowed in this context", "could not find expected ':'",
		"did not find expected key", "did not find expected '-' indicator",
	}
	if !slices.Contains(layoutErrors, d.Message) {
		return d, false
	}
	for _, number := range []int{d.Pos.Line, d.Pos.Line - 1} {
		line := src.lineText(number)
		if !misplacedSpace.MatchString(line) {
			continue
		}
		before := line[:strings.IndexAny(line, noBreakSpace)]
		d.Pos.Line, d.Pos.Col, d.Source = number, utf8.RuneCountInString(before)+1, line
		d.Message = "a no-break space is not a space in YAML"
		return d.WithHint("use an ordinary space"), true
	}
	return d, false
}
