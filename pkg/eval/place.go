package eval

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"agenthost/internal/adkjson"
	"agenthost/pkg/spec"
)

// formatSuggestion returns ` (did you mean "x"?)`, or "".
func formatSuggestion(name string, names []string) string {
	if near := spec.Suggest(name, names); near != "" {
		return " (did you mean " + strconv.Quote(near) + "?)"
	}
	return ""
}

// checkSyntax rejects files over the limit and invalid JSON.
func checkSyntax(file string, src []byte) error {
	if len(src) > MaxFile {
		return newDiagnostic(spec.Pos{File: file}, "file size exceeds the limit of 64 MiB", "split the file")
	}
	if !utf8.Valid(src) {
		return newDiagnostic(spec.Pos{File: file}, "file is not UTF-8", "save it as UTF-8")
	}
	if json.Valid(src) {
		return nil
	}
	var raw json.RawMessage
	err := json.Unmarshal(src, &raw)
	offset := len(src)
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		// The offset is that after the invalid character.
		offset = max(int(syntax.Offset)-1, 0)
	}
	return newDiagnostic(positionOf(file, src, offset), "invalid JSON: "+err.Error(), "")
}

func newDiagnostic(pos spec.Pos, message, hint string) error {
	return spec.Diagnostics{{Pos: pos, Rule: "eval-file", Message: message, Hint: hint}}.Err()
}

// errorAt returns an error at the value with a path of keys and indexes.
func errorAt(file string, src []byte, path []any, message string) error {
	e := adkjson.Error{Path: path, Message: message}
	return newDiagnostic(positionOf(file, src, findOffset(src, path)), e.Error(), "")
}

// Locate returns the position of the value in a JSON file with a path of keys and indexes, or
// else of the innermost value on its way. Keys may have either spelling.
func Locate(file string, src []byte, path ...any) spec.Pos {
	return positionOf(file, src, findOffset(src, path))
}

func positionOf(file string, src []byte, offset int) spec.Pos {
	before := src[:min(offset, len(src))]
	line := bytes.Count(before, []byte("\n")) + 1
	col := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
	return spec.Pos{File: file, Line: line, Col: col}
}

// findOffset returns the offset of the member or item with a path, or of the innermost
// one that exists.
func findOffset(src []byte, path []any) int {
	dec := json.NewDecoder(bytes.NewReader(src))
	offset := nextToken(src, 0)
	for _, step := range path {
		open, err := dec.Token()
		if err != nil {
			return offset
		}
		found := -1
		switch step := step.(type) {
		case string:
			if open == json.Delim('{') {
				found = findMember(dec, src, step)
			}
		case int:
			if open == json.Delim('[') {
				found = findItem(dec, src, step)
			}
		}
		if found < 0 {
			return offset
		}
		offset = found
	}
	return offset
}

// findMember moves the decoder to the value of a key, and returns the offset of the key.
func findMember(dec *json.Decoder, src []byte, key string) int {
	for dec.More() {
		offset := nextToken(src, int(dec.InputOffset()))
		name, err := dec.Token()
		if err != nil {
			return -1
		}
		if text, ok := name.(string); ok && isSameKey(text, key) {
			return offset
		}
		if dec.Decode(new(json.RawMessage)) != nil {
			return -1
		}
	}
	return -1
}

// isSameKey compares keys in either spelling: paths of rules have ADK's, files their own.
func isSameKey(a, b string) bool {
	return a == b || strings.EqualFold(strings.ReplaceAll(a, "_", ""), strings.ReplaceAll(b, "_", ""))
}

func findItem(dec *json.Decoder, src []byte, i int) int {
	for ; i > 0 && dec.More(); i-- {
		if dec.Decode(new(json.RawMessage)) != nil {
			return -1
		}
	}
	if !dec.More() {
		return -1
	}
	return nextToken(src, int(dec.InputOffset()))
}

// nextToken skips white space, commas and colons.
func nextToken(src []byte, offset int) int {
	rest := bytes.TrimLeft(src[offset:], " \t\r\n,:")
	return len(src) - len(rest)
}
