package eval

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"
)

// A Selection is a set to evaluate, by file or ID, and its cases; empty selects all cases.
type Selection struct {
	Set   string
	Cases []string
}

// ParseSelections reads arguments in the form SET or SET:case,case. Cases for the same set
// add up.
func ParseSelections(args []string) []*Selection {
	var all []*Selection
	for _, arg := range args {
		set, cases := splitSelection(arg)
		i := slices.IndexFunc(all, func(s *Selection) bool { return s.Set == set })
		if i < 0 {
			i = len(all)
			all = append(all, &Selection{Set: set})
		}
		all[i].Cases = append(all[i].Cases, cases...)
	}
	return all
}

// splitSelection cuts an argument at its first colon that does not follow a drive letter. It
// ignores text after a second one, as ADK does.
func splitSelection(arg string) (set string, cases []string) {
	drive := ""
	if windowsDrive.MatchString(arg) {
		drive, arg = arg[:2], arg[2:]
	}
	fields := strings.Split(arg, ":")
	if len(fields) > 1 {
		for _, c := range strings.Split(fields[1], ",") {
			if strings.TrimSpace(c) != "" {
				cases = append(cases, c)
			}
		}
	}
	return drive + fields[0], cases
}

var windowsDrive = regexp.MustCompile(`^[A-Za-z]:[\\/]`)

var setID = regexp.MustCompile(`^[a-zA-Z0-9_]+$`)

// CheckNewSetID returns an error unless a new set may have the ID: letters, digits and
// underscores. Existing files may have other names; see [CheckPathSegment].
func CheckNewSetID(id string) error {
	if !setID.MatchString(id) {
		return fmt.Errorf("eval set ID must consist of letters, digits and underscores, got %q", id)
	}
	return nil
}

// CheckPathSegment returns an error unless the name for an app, set or result can be part of
// a path.
func CheckPathSegment(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\\\x00") {
		return fmt.Errorf("cannot use %q as a file name", name)
	}
	return nil
}

// CaseID returns the ID for a case made from the scenario: the start of a hash.
func (s *Scenario) CaseID() string {
	sum := sha256.Sum256([]byte(s.hashText()))
	return hex.EncodeToString(sum[:])[:8]
}

// hashText is the JSON that Python writes with sorted keys.
func (s *Scenario) hashText() string {
	persona := "null"
	if p := s.Persona; p != nil {
		var behaviors []string
		for _, b := range p.Behaviors {
			behaviors = append(behaviors, fmt.Sprintf(`{"behavior_instructions": %s, "description": %s, "name": %s, "violation_rubrics": %s}`,
				quoteAllASCII(b.Instructions), quoteASCII(b.Description), quoteASCII(b.Name), quoteAllASCII(b.Violations)))
		}
		persona = fmt.Sprintf(`{"behaviors": [%s], "description": %s, "id": %s}`, strings.Join(behaviors, ", "), quoteASCII(p.Description), quoteASCII(p.ID))
	}
	return fmt.Sprintf(`{"conversation_plan": %s, "starting_prompt": %s, "user_persona": %s}`, quoteASCII(s.Plan), quoteASCII(s.StartingPrompt), persona)
}

func quoteAllASCII(list []string) string {
	var quoted []string
	for _, s := range list {
		quoted = append(quoted, quoteASCII(s))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// quoteASCII quotes as Python's json does: what is not ASCII is escaped.
func quoteASCII(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"', r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r >= 0x20 && r < 0x7f:
			b.WriteRune(r)
		case r < 0x20:
			quoted, _ := json.Marshal(string(r)) // never fails for a string
			b.Write(quoted[1 : len(quoted)-1])
		default:
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		}
	}
	b.WriteByte('"')
	return b.String()
}
