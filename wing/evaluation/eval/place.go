package eval

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"agenthost/internal/adkjson"
	"agenthost/internal/limit"
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
	if len(src) > limit.EvalFile.Bytes {
		return newDiagnostic(spec.Pos{File: file}, "file size exceeds the limit of 64 MiB", "split the file")
	}
	if tooLarge, ok := errors.AsType[*limit.Error](limit.EvalFile.CheckJSON(src)); ok {
		return newDiagnostic(spec.Pos{File: file}, "file exceeds "+tooLarge.Excess(), "split the file")
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
	return newDiagnostic(NewLocator(file, src).Locate(path...), e.Error(), "")
}

func positionOf(file string, src []byte, offset int) spec.Pos {
	before := src[:min(offset, len(src))]
	line := bytes.Count(before, []byte("\n")) + 1
	col := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
	return spec.Pos{File: file, Line: line, Col: col}
}

// An UnknownNameError reports a case, metric or model that does not exist.
type UnknownNameError struct {
	// Kind is what the name identifies, such as "case".
	Kind, Name string
	// Known are the existing names.
	Known []string
}

// maxKnownNames limits the names in an error.
const maxKnownNames = 30

// Error suggests the most similar name, or else lists them all.
func (e *UnknownNameError) Error() string {
	known := slices.Compact(slices.Sorted(slices.Values(e.Known)))
	text := fmt.Sprintf("unknown %s %q: ", e.Kind, e.Name)
	switch near := spec.Suggest(e.Name, known); {
	case near != "":
		return text + fmt.Sprintf("did you mean %q?", near)
	case len(known) == 0:
		return text + "there is none"
	case len(known) > maxKnownNames:
		return text + fmt.Sprintf("the names are %s and %d more", strings.Join(known[:maxKnownNames], ", "), len(known)-maxKnownNames)
	default:
		return text + "the names are " + strings.Join(known, ", ")
	}
}
