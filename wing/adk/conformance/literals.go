package conformance

import (
	"encoding/json"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Request texts show values: the arguments and results of other agents' calls, and the state
// in an instruction. adk-python writes them as Python does, {'a': None}, adk-go and agenthost
// as JSON, {"a":null}. They are brought into one form before they are compared.

// maxLiteralDepth limits a value's nesting.
const maxLiteralDepth = 64

// normalizeLiterals replaces the mappings and lists in text, in Python or JSON notation, by JSON
// with sorted keys. All other text stays as it is. Each bracket in the text may begin a value;
// those that were open when a value turned out to be none are not tried again, so that the time
// is linear.
func normalizeLiterals(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	failed := map[int]bool{} // brackets, as the length of the text from there
	var out strings.Builder
	for text != "" {
		begin := strings.IndexAny(text, "{[")
		if begin < 0 {
			break
		}
		out.WriteString(text[:begin])
		text = text[begin:]
		if !failed[len(text)] {
			r := literalReader{rest: text}
			if v, ok := r.readValue(); ok {
				b, _ := json.Marshal(v)
				out.Write(b)
				text = r.rest
				continue
			}
			for _, bracket := range r.open {
				failed[bracket] = true
			}
		}
		out.WriteByte(text[0])
		text = text[1:]
	}
	out.WriteString(text)
	return out.String()
}

var pythonConstant = regexp.MustCompile(`\b(None|True|False)\b`)

var jsonConstants = map[string]string{"None": "null", "True": "true", "False": "false"}

// normalizeConstants replaces Python's constants by JSON's: a template writes state values
// into an instruction.
func normalizeConstants(text string) string {
	return pythonConstant.ReplaceAllStringFunc(text, func(word string) string { return jsonConstants[word] })
}

// A literalReader reads a value at the start of text. Each method returns false if there is
// none.
type literalReader struct {
	rest string
	// open are the brackets for the mappings and lists that have not ended, as the length of
	// the text from there.
	open []int
}

// skipByte skips white space, and then a character if it is next.
func (r *literalReader) skipByte(c byte) bool {
	r.rest = strings.TrimLeft(r.rest, " \t\r\n")
	if r.rest == "" || r.rest[0] != c {
		return false
	}
	r.rest = r.rest[1:]
	return true
}

func (r *literalReader) readValue() (v any, ok bool) {
	r.rest = strings.TrimLeft(r.rest, " \t\r\n")
	if r.rest == "" || len(r.open) > maxLiteralDepth {
		return nil, false
	}
	switch first := r.rest[0]; first {
	case '\'', '"':
		return r.readString()
	case '{', '[', '(':
		r.open = append(r.open, len(r.rest))
		r.rest = r.rest[1:]
		switch first {
		case '{':
			v, ok = r.readMapping()
		case '[':
			v, ok = r.readList(']')
		default:
			v, ok = r.readList(')')
		}
		if ok {
			r.open = r.open[:len(r.open)-1]
		}
		return v, ok
	}
	return r.readWord()
}

// readMapping reads a mapping's entries after its brace.
func (r *literalReader) readMapping() (any, bool) {
	entries := map[string]any{}
	for !r.skipByte('}') {
		if len(entries) > 0 && !r.skipByte(',') {
			return nil, false
		}
		r.rest = strings.TrimLeft(r.rest, " \t\r\n")
		key, ok := r.readString()
		if !ok || !r.skipByte(':') {
			return nil, false
		}
		v, ok := r.readValue()
		if !ok {
			return nil, false
		}
		entries[key] = v
	}
	return entries, true
}

// readList reads the items in a list or tuple after its bracket. A tuple with one item ends with
// a comma.
func (r *literalReader) readList(end byte) (any, bool) {
	items := []any{}
	for !r.skipByte(end) {
		if len(items) > 0 && !r.skipByte(',') {
			return nil, false
		}
		if len(items) > 0 && end == ')' && r.skipByte(end) {
			break
		}
		v, ok := r.readValue()
		if !ok {
			return nil, false
		}
		items = append(items, v)
	}
	return items, true
}

// escapedCharacters are those after a backslash that are not a code.
var escapedCharacters = map[byte]byte{
	'n': '\n', 't': '\t', 'r': '\r', 'b': '\b', 'f': '\f', '\\': '\\', '\'': '\'', '"': '"', '/': '/',
}

// escapedDigits is how many hexadecimal digits a character code has.
var escapedDigits = map[byte]int{'x': 2, 'u': 4, 'U': 8}

// readString reads a string in single or double quotes.
func (r *literalReader) readString() (string, bool) {
	if r.rest == "" || r.rest[0] != '\'' && r.rest[0] != '"' {
		return "", false
	}
	quote, text := r.rest[0], r.rest[1:]
	var out []byte
	for {
		end := strings.IndexAny(text, string(quote)+`\`)
		if end < 0 || strings.IndexByte(text[:end], '\n') >= 0 {
			return "", false
		}
		out = append(out, text[:end]...)
		if text[end] == quote {
			r.rest = text[end+1:]
			return string(out), true
		}
		text = text[end+1:]
		if text == "" {
			return "", false
		}
		digits := escapedDigits[text[0]]
		if digits == 0 {
			c, known := escapedCharacters[text[0]]
			if !known {
				return "", false
			}
			out, text = append(out, c), text[1:]
			continue
		}
		code, rest, ok := readCode(text[1:], digits)
		if !ok {
			return "", false
		}
		out, text = utf8.AppendRune(out, code), rest
	}
}

// readCode reads a character's hexadecimal code, or both halves of a surrogate pair.
func readCode(text string, digits int) (code rune, rest string, ok bool) {
	if len(text) < digits {
		return 0, "", false
	}
	n, err := strconv.ParseUint(text[:digits], 16, 31)
	if err != nil {
		return 0, "", false
	}
	code, rest = rune(n), text[digits:]
	if low, found := strings.CutPrefix(rest, `\u`); found && digits == 4 && code >= 0xD800 && code < 0xDC00 && len(low) >= 4 {
		if n, err := strconv.ParseUint(low[:4], 16, 16); err == nil && n >= 0xDC00 && n < 0xE000 {
			return (code-0xD800)<<10 + rune(n) - 0xDC00 + 0x10000, low[4:], true
		}
	}
	return code, rest, true
}

// maxNumberBytes limits the digits in a number that is compared by value.
const maxNumberBytes = 400

// readWord reads a constant or a number.
func (r *literalReader) readWord() (any, bool) {
	end := strings.IndexAny(r.rest, " \t\r\n,:]})")
	if end < 0 || end > maxNumberBytes {
		return nil, false
	}
	word := r.rest[:end]
	r.rest = r.rest[end:]
	switch word {
	case "None", "null":
		return nil, true
	case "True", "true":
		return true, true
	case "False", "false":
		return false, true
	case "nan", "inf", "-inf":
		return word, true
	}
	return normalizeNumber(word)
}

// normalizeNumber returns the one form for a number's value: 5.0 is 5, and 1e+16 is 1e16.
func normalizeNumber(word string) (any, bool) {
	if !json.Valid([]byte(word)) {
		return nil, false
	}
	if n, ok := new(big.Int).SetString(word, 10); ok {
		return json.Number(n.String()), true
	}
	f, err := strconv.ParseFloat(word, 64)
	if err != nil {
		return json.Number(word), true // beyond the range of a float
	}
	if n, accuracy := big.NewFloat(f).Int(nil); accuracy == big.Exact {
		return json.Number(n.String()), true
	}
	return json.Number(strconv.FormatFloat(f, 'g', -1, 64)), true
}
