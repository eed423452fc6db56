package spec

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Severity states whether a problem prevents an app from loading.
type Severity int

// Severities.
const (
	// Error prevents the document from being used.
	Error Severity = iota
	// Warning is reported; the document is still used.
	Warning
)

// String returns "error" or "warning".
func (s Severity) String() string {
	if s == Warning {
		return "warning"
	}
	return "error"
}

// A Diagnostic is one problem and its position.
type Diagnostic struct {
	Pos      Pos
	Severity Severity
	// Rule identifies the check that found the problem, such as unknown-field.
	Rule    string
	Message string
	// Hint is an optional instruction that resolves the problem ("did you mean …").
	Hint string
	// Source is the line at Pos, without its line break.
	Source string
	// Fix is an optional automatic fix.
	Fix Fix
	// Proposals are the edits that the hint names. Unlike Fix, they may differ from what the author
	// meant: editors offer them, and check --fix does not apply them.
	Proposals []Proposal
	// Also lists a merged problem's other positions; see [Diagnostics.Merge].
	Also []Place
}

// A Place is a position in a document and its source line.
type Place struct {
	Pos    Pos
	Source string
}

// MarshalJSON encodes file, line and column.
func (p Place) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"file": p.Pos.File, "line": p.Pos.Line, "column": p.Pos.Col})
}

// String returns "file:line:col: message [rule]"; warnings have "warning: " before the
// message.
func (d Diagnostic) String() string {
	var b strings.Builder
	if at := d.Pos.String(); at != "" {
		b.WriteString(at + ": ")
	}
	if d.Severity == Warning {
		b.WriteString("warning: ")
	}
	b.WriteString(d.Message)
	if d.Rule != "" {
		b.WriteString(" [" + d.Rule + "]")
	}
	return b.String()
}

// WithHint returns the diagnostic with a hint.
func (d Diagnostic) WithHint(format string, args ...any) Diagnostic {
	d.Hint = fmt.Sprintf(format, args...)
	return d
}

// withSuggestion adds the hint "did you mean" if a name is similar to a mistyped one.
func (d Diagnostic) withSuggestion(name string, names []string) Diagnostic {
	if near := Suggest(name, names); near != "" {
		return d.WithNearName(name, near)
	}
	return d
}

// WithNearName returns the diagnostic with the hint "did you mean" for a mistyped name at its
// position, and with the proposal to replace it.
func (d Diagnostic) WithNearName(name, near string) Diagnostic {
	return d.WithHint("did you mean %q?", near).WithProposal(name, near)
}

// MarshalJSON encodes file, line, column, severity, rule and message, and the optional
// hint, source, fix and also.
func (d Diagnostic) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		File     string  `json:"file"`
		Line     int     `json:"line"`
		Column   int     `json:"column"`
		Severity string  `json:"severity"`
		Rule     string  `json:"rule"`
		Message  string  `json:"message"`
		Hint     string  `json:"hint,omitempty"`
		Source   string  `json:"source,omitempty"`
		Fix      Fix     `json:"fix,omitzero"`
		Also     []Place `json:"also,omitempty"`
	}{d.Pos.File, d.Pos.Line, d.Pos.Col, d.Severity.String(), d.Rule, d.Message, d.Hint, d.Source, d.Fix, d.Also})
}

// Diagnostics is a list of problems.
type Diagnostics []Diagnostic

// HasErrors reports whether any problem is an error.
func (ds Diagnostics) HasErrors() bool {
	return slices.ContainsFunc(ds, func(d Diagnostic) bool { return d.Severity == Error })
}

// placeAt gives the problems that have no position, such as those about missing fields, the
// position where their node is.
func (ds Diagnostics) placeAt(n *Node) Diagnostics {
	for i, d := range ds {
		if at := n.Errorf("", ""); d.Pos == (Pos{}) {
			ds[i].Pos, ds[i].Source = at.Pos, at.Source
		}
	}
	return ds
}

// Err returns the list as an error, or nil if it contains no error.
func (ds Diagnostics) Err() error {
	if !ds.HasErrors() {
		return nil
	}
	return ds
}

// Error returns all problems, one per line, each with its hint in parentheses: a program that
// only logs the error reports the way out as well.
func (ds Diagnostics) Error() string { return strings.Join(ds.StringsWithHints(), "\n") }

// Strings returns one line per problem, without snippets and hints.
func (ds Diagnostics) Strings() []string {
	lines := make([]string, len(ds))
	for i, d := range ds {
		lines[i] = d.String()
	}
	return lines
}

// StringsWithHints returns one line per problem, without snippets, with its hint in
// parentheses.
func (ds Diagnostics) StringsWithHints() []string {
	lines := ds.Strings()
	for i, d := range ds {
		if d.Hint != "" {
			lines[i] += " (" + d.Hint + ")"
		}
	}
	return lines
}

// MarshalJSON encodes a list; nil is the empty list.
func (ds Diagnostics) MarshalJSON() ([]byte, error) {
	return json.Marshal(append([]Diagnostic{}, ds...))
}

// Sort orders the problems by file and position and removes duplicates.
func (ds *Diagnostics) Sort() {
	slices.SortStableFunc(*ds, Diagnostic.compareTo)
	*ds = slices.CompactFunc(*ds, func(d, e Diagnostic) bool { return d.Equal(e) })
}

// Equal reports whether both have the same rule, message and position.
func (d Diagnostic) Equal(e Diagnostic) bool { return d.compareTo(e) == 0 }

func (d Diagnostic) compareTo(e Diagnostic) int {
	return cmp.Or(
		cmp.Compare(d.Pos.File, e.Pos.File),
		cmp.Compare(d.Pos.Line, e.Pos.Line),
		cmp.Compare(d.Pos.Col, e.Pos.Col),
		cmp.Compare(d.Rule, e.Rule),
		cmp.Compare(d.Message, e.Message),
	)
}

// Merge combines problems under the given rules that differ only in position into the first one.
// Its message counts the other places, and Also lists them. The list must be sorted. Problems with
// a [Fix] are not merged.
func (ds Diagnostics) Merge(rules ...string) Diagnostics {
	type mergeKey struct {
		severity            Severity
		rule, message, hint string
	}
	first := map[mergeKey]int{}
	var merged Diagnostics
	for _, d := range ds {
		if !slices.Contains(rules, d.Rule) || d.Fix != (Fix{}) {
			merged = append(merged, d)
			continue
		}
		key := mergeKey{d.Severity, d.Rule, d.Message, d.Hint}
		if i, ok := first[key]; ok {
			merged[i].Also = append(merged[i].Also, Place{d.Pos, d.Source})
			continue
		}
		first[key] = len(merged)
		merged = append(merged, d)
	}
	for i, d := range merged {
		switch n := len(d.Also); n {
		case 0:
		case 1:
			merged[i].Message += "; also at 1 other place"
		default:
			merged[i].Message += fmt.Sprintf("; also at %d other places", n)
		}
	}
	return merged
}

// Split undoes [Diagnostics.Merge]: it returns one problem per position, each with the
// merged message.
func (ds Diagnostics) Split() Diagnostics {
	var split Diagnostics
	for _, d := range ds {
		also := d.Also
		d.Also = nil
		split = append(split, d)
		for _, p := range also {
			d.Pos, d.Source = p.Pos, p.Source
			split = append(split, d)
		}
	}
	return split
}

// secretWord matches a word that may be a token: at least 16 characters, without YAML separators.
var secretWord = regexp.MustCompile(`[^\s"'{}\[\],*&!]{16,}`)

// plainName matches a field or claim name.
var plainName = regexp.MustCompile(`^[A-Za-z_.]+$`)

// Redact returns the problems in a document that may contain secrets: with position, rule and
// reason, but without source lines and fixes. Messages and hints have *** for a word from the
// source line that may be a token, such as one written where a key belongs.
func (ds Diagnostics) Redact() Diagnostics {
	clean := slices.Clone(ds)
	for i, d := range clean {
		clean[i].Message, clean[i].Hint = redactWords(d.Message, d.Source), redactWords(d.Hint, d.Source)
		clean[i].Source, clean[i].Fix, clean[i].Proposals, clean[i].Also = "", Fix{}, nil, slices.Clone(d.Also)
		for j := range clean[i].Also {
			clean[i].Also[j].Source = ""
		}
	}
	return clean
}

// redactWords replaces a source line's words in text, except for plain names.
func redactWords(text, source string) string {
	for _, word := range secretWord.FindAllString(source, -1) {
		if word = strings.TrimRight(word, ":"); !plainName.MatchString(word) {
			text = strings.ReplaceAll(text, word, redacted)
		}
	}
	return text
}

// A Fix is a safe automatic fix: it replaces Old with New at a position in the problem's file. Old
// is on one line. The zero Fix means none.
type Fix struct {
	Line int    `json:"line"`
	Col  int    `json:"column"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

// WithFix returns the diagnostic with a fix at its position.
func (d Diagnostic) WithFix(oldText, newText string) Diagnostic {
	d.Fix = Fix{d.Pos.Line, d.Pos.Col, oldText, newText}
	return d
}

// A Proposal replaces Old with New at its problem's position. Old is on one line; for a quoted
// string it is the text without its quotes.
type Proposal struct{ Old, New string }

// WithProposal returns the diagnostic with one more proposal.
func (d Diagnostic) WithProposal(oldText, newText string) Diagnostic {
	d.Proposals = append(slices.Clip(d.Proposals), Proposal{oldText, newText})
	return d
}

// ApplyFixes applies the fixes for one file and leaves every other byte unchanged. It skips fixes
// whose old text is not at their position and fixes that overlap the previous one; done are the
// applied fixes in file order.
func ApplyFixes(text []byte, fixes []Fix) (fixed []byte, done []Fix) {
	fixes = slices.Clone(fixes)
	slices.SortFunc(fixes, func(a, b Fix) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col), cmp.Compare(a.New, b.New))
	})
	starts := lineStarts(text)
	var out bytes.Buffer
	end := 0
	for _, f := range fixes {
		at, ok := offsetOf(text, starts, f)
		if !ok || at < end || !bytes.HasPrefix(text[at:], []byte(f.Old)) {
			continue
		}
		out.Write(text[end:at])
		out.WriteString(f.New)
		end = at + len(f.Old)
		done = append(done, f)
	}
	out.Write(text[end:])
	return out.Bytes(), done
}

// lineStarts returns the offsets at which lines begin, counted as the YAML parser does.
func lineStarts(text []byte) []int {
	starts := []int{0}
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRune(text[at:])
		at += size
		switch r {
		case '\r':
			if at < len(text) && text[at] == '\n' {
				at++
			}
		case '\n', '\u0085', '\u2028', '\u2029':
		default:
			continue
		}
		starts = append(starts, at)
	}
	return starts
}

func offsetOf(text []byte, starts []int, f Fix) (int, bool) {
	if f.Line < 1 || f.Line > len(starts) || f.Col < 1 {
		return 0, false
	}
	at := starts[f.Line-1]
	if f.Line == 1 {
		at += len(text) - len(bytes.TrimPrefix(text, []byte("\uFEFF")))
	}
	for range f.Col - 1 {
		if at >= len(text) {
			return 0, false
		}
		_, size := utf8.DecodeRune(text[at:])
		at += size
	}
	return at, true
}

const (
	// maxSuggestLength and maxSuggestNames limit the comparison cost: a file may have thousands of
	// unknown names.
	maxSuggestLength = 64
	maxSuggestNames  = 500
)

// Suggest returns the name most similar to a mistyped one, for "did you mean …?", or "" if none is
// similar. It ignores case. Among equally similar names, it returns the one closest in length, then
// the first in alphabetical order. It returns "" for a name longer than 64 bytes, or if there are
// more than 500 names.
func Suggest(name string, names []string) string {
	if len(name) > maxSuggestLength || len(names) > maxSuggestNames {
		return ""
	}
	best, bound := "", max(len(name)/3, min(len(name)-1, 1))
	lower := strings.ToLower(name)
	for _, n := range names {
		if absInt(len(n)-len(name)) > bound {
			continue
		}
		other := strings.ToLower(n)
		if countMissingBytes(lower, other) > bound {
			continue
		}
		d := editDistance(lower, other)
		if d < bound || d == bound && (best == "" || isNearer(n, best, len(name))) {
			best, bound = n, d
		}
	}
	return best
}

// suggestUnambiguous is Suggest, but returns "" if another name is equally similar.
func suggestUnambiguous(name string, names []string) string {
	best := Suggest(name, names)
	if best == "" {
		return ""
	}
	bound := editDistance(strings.ToLower(name), strings.ToLower(best))
	for _, n := range names {
		if n != best && absInt(len(n)-len(name)) <= bound && editDistance(strings.ToLower(name), strings.ToLower(n)) <= bound {
			return ""
		}
	}
	return best
}

func isNearer(a, b string, length int) bool {
	return cmp.Or(cmp.Compare(absInt(len(a)-length), absInt(len(b)-length)), cmp.Compare(a, b)) < 0
}

// countMissingBytes counts the bytes in a word that another one does not have. This lower bound for
// their edit distance is cheaper to compute.
func countMissingBytes(word, other string) int {
	var count [256]int8
	for i := range len(other) {
		count[other[i]] = min(count[other[i]], 100) + 1
	}
	n := 0
	for i := range len(word) {
		if count[word[i]]--; count[word[i]] < 0 {
			n++
			count[word[i]] = 0
		}
	}
	return n
}

// editDistance counts the bytes to insert, delete, replace or transpose to turn a into
// b. The words are close in length, and one of them has at most maxSuggestLength bytes.
func editDistance(a, b string) int {
	var rows [3][maxSuggestLength + maxSuggestLength/3 + 1]int
	before, last, row := rows[0][:len(b)+1], rows[1][:len(b)+1], rows[2][:len(b)+1]
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replaced := last[j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			row[j] = min(last[j]+1, row[j-1]+1, replaced)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

func absInt(n int) int { return max(n, -n) }

// typographyHint returns a hint for an unknown key that has typographic quotes or
// no-break spaces.
func typographyHint(key string) (string, bool) {
	clean := strings.Trim(key, noBreakSpace+typographicQuote+" ")
	switch {
	case clean == key || clean == "":
		return "", false
	case strings.ContainsAny(key, typographicQuote):
		return "the key has typographic quotes: write " + clean, true
	}
	return "the key has a no-break space: write " + clean + ", with ordinary spaces before it", true
}
