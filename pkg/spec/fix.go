package spec

import (
	"bytes"
	"cmp"
	"slices"
	"unicode/utf8"
)

// A Fix is a safe automatic fix: it replaces Old with New at a position in the file of
// the problem. Old is on one line. The zero Fix means none.
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

// ApplyFixes applies the fixes of one file and leaves every other byte unchanged. It
// skips fixes whose old text is not at their position and fixes that overlap the
// previous one; done are the applied fixes in the order of the file.
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
