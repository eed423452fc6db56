package loader

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"agenthost/pkg/spec"
)

// Renaming replaces a name at all its places at once, or not at all:
//
//  1. [NameTable.CheckRename] refuses a name with places that cannot be replaced: in a file that cannot
//     be read now, outside of the folder, in an escape, or in another program.
//  2. The edited files are read again in memory. Each must have the same names at the same places,
//     with the new name instead of the old one. This is what makes a rename safe: a new name that YAML
//     or an expression reads in another way, such as null, is found here and not by a rule for each
//     case.

// A NameEdit replaces a range in a file with the new name.
type NameEdit struct {
	File  string
	Range spec.Range
}

// CheckRename returns an error if not all places with a name can be replaced.
func (t *NameTable) CheckRename(kind NameKind, name string) error {
	label := kind.String() + " " + name
	uses := t.Find(kind, name)
	for _, d := range t.Problems {
		return fmt.Errorf("cannot rename %s: not all its places are known, because %s has an error: %s", label, d.Pos, d.Message)
	}
	declared := false
	for _, u := range uses {
		declared = declared || u.Role == NameWritten || u.Role == NameDeclared && kind != StateNames
		switch {
		case strings.HasPrefix(u.File, "../"):
			return fmt.Errorf("cannot rename %s: %s is outside of the app folder, and other apps may include it", label, u.File)
		case !u.Exact:
			return fmt.Errorf("cannot rename %s: at %s it is part of a variable, or written with an escape", label, t.placeOf(u))
		}
	}
	if last := lastWord(name); kind == FunctionNames {
		for _, u := range append(t.Find(ToolNames, last), t.Find(AgentNames, last)...) {
			return fmt.Errorf("cannot rename %s: a tool or agent without a name has its last part, %s, which is at %s", label, last, t.placeOf(u))
		}
	}
	switch {
	case declared:
		return nil
	case kind == StateNames:
		return fmt.Errorf("cannot rename %s: nothing in the app writes it, so clients or other programs do", label)
	case kind == ToolNames && t.IsBuiltin(name):
		return fmt.Errorf("cannot rename %s: it is a built-in tool", label)
	}
	return fmt.Errorf("cannot rename %s: the app does not declare it", label)
}

// placeOf returns a use's position, as file:line.
func (t *NameTable) placeOf(u NameUse) string {
	return fmt.Sprintf("%s:%d", u.File, 1+strings.Count(string(t.texts[u.File][:u.Range.Start]), "\n"))
}

// Rename returns the edits that rename a name, sorted by file and range. t must be the last table. The
// error states why the name cannot be renamed, or what is wrong with the new name.
func (x *NameIndex) Rename(t *NameTable, kind NameKind, name, to string) ([]NameEdit, error) {
	if err := t.CheckRename(kind, name); err != nil {
		return nil, err
	}
	if err := t.checkNewName(kind, name, to); err != nil {
		return nil, err
	}
	var edits []NameEdit
	for _, u := range t.Find(kind, name) {
		edits = append(edits, NameEdit{u.File, u.Range})
	}
	edits = slices.Compact(edits) // a file may be read in two forms
	if at, ok := x.findWritten(kind, to); ok {
		return nil, fmt.Errorf("cannot rename %s %s to %s: that is already written at %s", kind, name, to, t.placeOf(at))
	}
	byFile := map[string][]spec.Range{}
	for _, e := range edits {
		byFile[e.File] = append(byFile[e.File], e.Range)
	}
	for file, f := range x.files {
		ranges := byFile[file.path]
		if ranges == nil {
			continue
		}
		after := x.loader.collectNames(file, replaceRanges(f.text, ranges, to))
		if at, ok := f.names.differsAfter(after, ranges, to); ok {
			return nil, fmt.Errorf("cannot rename %s %s to %s: %s would be read in another way at %s", kind, name, to, file.path, t.placeOf(NameUse{File: file.path, Range: at}))
		}
	}
	return edits, nil
}

// findWritten finds text that would become a place of a new name, such as a word in backticks.
func (x *NameIndex) findWritten(kind NameKind, to string) (NameUse, bool) {
	kinds := []NameKind{kind}
	if kind == AgentNames || kind == ToolNames {
		kinds = []NameKind{AgentNames, ToolNames, FunctionNames}
	}
	for _, f := range x.files {
		for _, u := range f.names.uses {
			if u.Name == to && slices.Contains(kinds, u.Kind) {
				return u, true
			}
		}
	}
	return NameUse{}, false
}

// replaceRanges returns a file with another word in ranges, which are sorted.
func replaceRanges(text []byte, ranges []spec.Range, word string) []byte {
	var b []byte
	last := 0
	for _, r := range ranges {
		b = append(append(b, text[last:r.Start]...), word...)
		last = r.End
	}
	return append(b, text[last:]...)
}

// differsAfter compares a file's names with those after the edits, and returns the first place that
// differs in more than the new name.
func (f collectedNames) differsAfter(after collectedNames, edits []spec.Range, to string) (spec.Range, bool) {
	byPlace := func(a, b NameUse) int {
		return cmp.Or(cmp.Compare(a.Range.Start, b.Range.Start), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Role, b.Role))
	}
	before := slices.SortedFunc(slices.Values(f.uses), byPlace)
	now := slices.SortedFunc(slices.Values(after.uses), byPlace)
	if after.problem != nil || len(before) != len(now) {
		return edits[0], true
	}
	shift, next := 0, 0
	for i, u := range before {
		for next < len(edits) && edits[next].End <= u.Range.Start {
			shift += len(to) - (edits[next].End - edits[next].Start)
			next++
		}
		want := u
		want.Range = spec.Range{Start: u.Range.Start + shift, End: u.Range.End + shift}
		if next < len(edits) && edits[next] == u.Range {
			want.Name, want.Range.End = to, want.Range.Start+len(to)
		}
		got := now[i]
		if got.Kind != want.Kind || got.Name != want.Name || got.Role != want.Role || got.Exact != want.Exact || got.Range != want.Range {
			return u.Range, true
		}
	}
	return spec.Range{}, false
}

// checkNewName returns an error if a new name is not valid for its kind, or is taken.
func (t *NameTable) checkNewName(kind NameKind, name, to string) error {
	invalid := func(form string) error { return fmt.Errorf("invalid name %q: %s must be %s", to, kind, form) }
	prefix, _, scoped := strings.Cut(name, ":")
	newPrefix, _, newScoped := strings.Cut(to, ":")
	switch {
	case kind == StateNames && scoped && (!newScoped || newPrefix != prefix):
		return fmt.Errorf("invalid name %q: the state key must begin with %s: as before", to, prefix)
	case kind == StateNames && !scoped && newScoped:
		return fmt.Errorf("invalid name %q: the state key has no prefix, and another one has other values", to)
	case kind == StateNames && !isPlaceholderKey(to):
		return invalid("letters, digits and underscores, beginning with a letter")
	case kind == AgentNames && (!isIdentifier(to) || to == "user"):
		return invalid("letters, digits and underscores, beginning with a letter, and not user")
	case kind == SchemaNames && (!isIdentifier(to) || isTypeName(to)):
		return invalid("letters, digits and underscores, beginning with a letter, and not a type")
	case kind == ToolNames && !callName.MatchString(to):
		return invalid("at most 64 characters, which are letters, digits, underscores, dots and dashes, the first a letter")
	case !isPlainName(to):
		return invalid("letters, digits and the characters _ - . / :")
	}
	kinds := []NameKind{kind}
	if kind == AgentNames || kind == ToolNames {
		kinds = []NameKind{AgentNames, ToolNames} // a model calls both by their names
		if t.IsBuiltin(to) {
			return fmt.Errorf("cannot rename %s %s to %s: a built-in tool has this name", kind, name, to)
		}
	}
	for _, other := range kinds {
		for _, u := range t.Find(other, to) {
			return fmt.Errorf("cannot rename %s %s to %s: the name is taken at %s", kind, name, to, t.placeOf(u))
		}
	}
	return nil
}

var callName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,63}$`)

// maxPlainName limits the characters of a new name.
const maxPlainName = 200

// isPlainName reports whether a name has only letters, digits, marks and the characters _ - . / :, and
// begins with a letter, a digit or an underscore. A regular expression with this limit takes 5 MB.
func isPlainName(name string) bool {
	for i, c := range name {
		isInner := i > 0 && (unicode.IsMark(c) || strings.ContainsRune("./:-", c))
		if !unicode.IsLetter(c) && !unicode.IsNumber(c) && c != '_' && !isInner {
			return false
		}
	}
	n := utf8.RuneCountInString(name)
	return n > 0 && n <= maxPlainName && utf8.ValidString(name)
}

// String returns what messages call a name of the kind.
func (k NameKind) String() string {
	switch k {
	case AgentNames:
		return "agent"
	case ToolNames:
		return "tool"
	case ModelNames:
		return "model"
	case StateNames:
		return "state key"
	case SchemaNames:
		return "schema"
	case FunctionNames:
		return "function"
	case ConnectionNames:
		return "connection"
	}
	return "name"
}
