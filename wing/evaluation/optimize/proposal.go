package optimize

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"agenthost/pkg/template"
)

// maxProposalBytes limits a proposed instruction.
const maxProposalBytes = 64 << 10

// readProposal returns the instruction in an answer, which is between two lines with ```, or
// else the whole answer. A [*RejectedError] is why it cannot replace the old one.
func readProposal(answer, old string) (string, error) {
	text := strings.TrimSpace(strings.ReplaceAll(answer, "\r\n", "\n"))
	if _, rest, ok := strings.Cut("\n"+text, "\n```"); ok {
		_, rest, _ = strings.Cut(rest, "\n") // the language
		if i := strings.LastIndex("\n"+rest, "\n```"); i >= 0 {
			text = rest[:max(i-1, 0)]
		} else {
			text = rest
		}
		text = strings.TrimSpace(text)
	}
	switch {
	case text == "":
		return "", &RejectedError{"the model returned no instruction"}
	case !utf8.ValidString(text):
		return "", &RejectedError{"the instruction is not UTF-8"}
	case len(text) > maxProposalBytes:
		return "", &RejectedError{"the instruction exceeds the limit of 64 KiB"}
	}
	if strings.HasSuffix(old, "\n") {
		text += "\n"
	}
	return text, compareKept(old, text)
}

// compareKept rejects an instruction whose placeholders and references differ from the old
// one's.
func compareKept(old, text string) error {
	before, after := listKept(old), listKept(text)
	for _, p := range before {
		if !slices.Contains(after, p) {
			return &RejectedError{fmt.Sprintf("the instruction lacks the placeholder %s", p)}
		}
	}
	for _, p := range after {
		if !slices.Contains(before, p) {
			return &RejectedError{fmt.Sprintf("the instruction has the new placeholder %s", p)}
		}
	}
	return nil
}

// reference matches references such as ${env:NAME}, which loading replaces.
var reference = regexp.MustCompile(`\$\{[^}]*\}`)

// listKept returns an instruction's placeholders and references as they are written, sorted.
func listKept(text string) []string {
	kept := map[string]bool{}
	for _, r := range reference.FindAllString(text, -1) {
		kept[r] = true
	}
	text = reference.ReplaceAllString(text, "")
	for _, ref := range template.Parse(text).Refs() {
		kept[writtenRef(text[ref.Offset:])] = true
	}
	return slices.Sorted(maps.Keys(kept))
}

// writtenRef returns the placeholder that begins a string.
func writtenRef(text string) string {
	end := "}"
	if strings.HasPrefix(text, "<") {
		end = ">"
	}
	i := strings.Index(text, end)
	for i >= 0 && strings.HasPrefix(text[i+1:], end) {
		i++
	}
	return text[:i+1]
}
