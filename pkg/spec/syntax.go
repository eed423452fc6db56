package spec

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// newSyntaxError puts an error of the YAML parser into words, at its place.
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

// parserPos reads where the parser stopped from its unexported fields: its
// errors carry a line that is sometimes missing, sometimes one too low, and no
// column. The parser is frozen; should a field be gone, the line has to do.
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
	// What has no end is told best where it starts.
	case strings.HasPrefix(message, "found unexpected"), strings.HasPrefix(message, "could not find expected ':'"):
		return context, context.Line > 0
	}
	return problem, problem.Line > 0
}

// fieldByName is a field of a struct, or of what a pointer points to; the zero
// Value when there is none.
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

// explainSyntax puts the parser's words into ordinary ones. What it does not
// know stays as it is.
func explainSyntax(d Diagnostic, src *source) Diagnostic {
	if explained, ok := explainNoBreakSpace(d, src); ok {
		return explained
	}
	here := src.textFrom(d.Pos)
	switch message := d.Message; {
	case strings.HasPrefix(message, "unknown anchor"):
		name := strings.Split(message, "'")[1]
		d.Message = "there is no anchor &" + name + " above this alias"
	case strings.HasPrefix(message, "found character that cannot start any token"):
		return explainStart(d, here)
	case leadingBrace.MatchString(d.Source):
		d.Message, d.Pos.Col = "text cannot start with {", strings.Index(d.Source, "{")+1
		return d.WithHint("put it in quotes, or on a line of its own under %s: |", leadingBrace.FindStringSubmatch(d.Source)[1])
	case strings.HasPrefix(message, "did not find expected ',' or"):
		return explainFlow(d, here)
	case message == "could not find expected ':'" && unspacedKey.MatchString(src.lineText(d.Pos.Line)):
		d.Message = `expected ":" and a space after this key`
		return d.WithHint("put a space after the colon: %s", unspacedKey.ReplaceAllString(strings.TrimSpace(src.lineText(d.Pos.Line)), "$1: $2"))
	case (message == notAllowedColon || message == missingKey) && isDeeper(d, src):
		return explainIndent(d, src)
	default:
		if words, ok := describeSyntaxError(message); ok {
			d.Message, d.Hint = words[0], words[1]
		}
	}
	return d
}

// leadingBrace finds a text that begins with a placeholder, which YAML takes for
// a mapping with something behind it.
var leadingBrace = regexp.MustCompile(`^[ -]*([\w-]+): *\{[^{}]*\} *[^ #,}\]]`)

// unspacedKey finds key:value, which YAML takes for one text.
var unspacedKey = regexp.MustCompile(`^\s*([A-Za-z_][\w-]*):([^\s:/].*)$`)

func explainStart(d Diagnostic, here string) Diagnostic {
	if strings.HasPrefix(here, "\t") {
		d.Message, d.Hint = "a tab cannot indent", "use spaces"
		return d
	}
	first, _ := utf8.DecodeRuneInString(here)
	d.Message = fmt.Sprintf("text cannot start with %c", first)
	return d.WithHint("put it in quotes")
}

// explainFlow tells of what YAML 1.1 does not take inside [ ] and { }: text
// with a question mark at its end, and ${…}.
func explainFlow(d Diagnostic, here string) Diagnostic {
	end := strings.TrimPrefix(d.Message, "did not find expected ',' or ")
	d.Message = `expected "," or "` + strings.Trim(end, "'") + `" here`
	before := strings.TrimSuffix(d.Source, here)
	word := before[strings.LastIndexAny(before, " ,:{[")+1:]
	switch {
	case strings.HasPrefix(here, "??") || strings.HasPrefix(here, "? "):
		return withQuotesFix(d.WithHint("inside { } and [ ], an expression with ? needs quotes"))
	case strings.HasPrefix(here, "?"):
		return withQuotesFix(d.WithHint(`inside { } and [ ], text with ? needs quotes: "%s?"`, word))
	case strings.HasPrefix(here, "{") && strings.HasSuffix(word, "$"):
		reference, _, _ := strings.Cut(here, "}")
		return withQuotesFix(d.WithHint(`inside { } and [ ], text with { } needs quotes: "%s%s}"`, word, reference))
	}
	return d.WithHint(`close every [ and {, and put text with , [ ] { } or ": " in quotes`)
}

// describeSyntaxError has a message and a hint for each message of the parser that
// people meet.
func describeSyntaxError(message string) ([2]string, bool) {
	words, ok := map[string][2]string{
		notAllowedColon: {
			`a ":" is not allowed here`,
			`text with ": " in it needs quotes, as an expression with ? and : does; or check the indentation of this line and the one above`,
		},
		"block sequence entries are not allowed in this context": {
			`a "- " is not allowed here`, "start a list on a line of its own",
		},
		missingKey: {
			"expected a key here", "check the indentation, and the quotes of the text before it",
		},
		"did not find expected '-' indicator": {
			`expected "- " here`, "every entry of a list starts in the same column",
		},
		"did not find expected node content": {
			"expected a value here", "text that starts with , ] or } needs quotes",
		},
		"did not find expected <document start>": {
			"the document has ended before this", "check the indentation",
		},
		"could not find expected ':'": {
			`expected ":" after this key`, "text over several lines is indented, or stands under key: |",
		},
		"found unexpected end of stream":      {"the quote that opens here is not closed", ""},
		"found unexpected document indicator": {"the quote that opens here is not closed", ""},
		"found unknown escape character":      {"this text has a \\ with a letter that means nothing", `in "…" write \\ for one \, or use '…'`},
		"found invalid Unicode character escape code": {
			"this text has a \\u escape that is no character", "write the character itself",
		},
		"did not find expected hexdecimal number": {"this text has a \\x or \\u escape without its digits", ""},
		"found a tab character that violates indentation": {
			"a tab cannot indent", "use spaces",
		},
		"found a tab character where an indentation space is expected": {
			"a tab cannot indent", "use spaces",
		},
		"did not find expected comment or line break": {
			"only a comment may follow | or > on its line", "start the text on the next line",
		},
		"found undefined tag handle": {"this tag is not known here", "text that starts with ! needs quotes"},
	}[message]
	return words, ok
}
