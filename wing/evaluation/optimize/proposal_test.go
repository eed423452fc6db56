package optimize

import (
	"strings"
	"testing"
)

// TestReadProposal: the instruction is between fences, or else the whole answer; it keeps the
// old one's placeholders and references.
func TestReadProposal(t *testing.T) {
	const old = "Help {tier?} at ${env:SHOP} with {artifact.rules.txt}."
	kept := " {tier?} ${env:SHOP} {artifact.rules.txt}"
	for _, c := range []struct{ name, answer, want, rejected string }{
		{"fenced", "Here it is:\n```text\nBe kind." + kept + "\n```\nGood luck.", "Be kind." + kept, ""},
		{"plain", " Be kind." + kept + "\n", "Be kind." + kept, ""},
		{"a fence inside", "```\nBe kind." + kept + "\n```json\n[]\n```\nend\n```", "Be kind." + kept + "\n```json\n[]\n```\nend", ""},
		{"open fence", "```\nBe kind." + kept, "Be kind." + kept, ""},
		{"other braces", "Answer with {\"a\": 1}." + kept, "Answer with {\"a\": 1}." + kept, ""},
		{"empty", "```\n```", "", "the model returned no instruction"},
		{"no answer", "", "", "the model returned no instruction"},
		{"lacks one", "Be kind.", "", "the instruction lacks the placeholder ${env:SHOP}"},
		{"not optional", "Be kind. {tier} ${env:SHOP} {artifact.rules.txt}", "", "the instruction lacks the placeholder {tier?}"},
		{"new one", "Be kind. {user:name}" + kept, "", "the instruction has the new placeholder {user:name}"},
		{"new reference", "Be kind. ${secret:KEY}" + kept, "", "the instruction has the new placeholder ${secret:KEY}"},
		{"too large", strings.Repeat("x", 70_000), "", "the instruction exceeds the limit of 64 KiB"},
		{"not UTF-8", "\xff", "", "the instruction is not UTF-8"},
	} {
		got, err := readProposal(c.answer, old)
		reason := ""
		if err != nil {
			reason = err.Error()
		}
		if reason != c.rejected || c.rejected == "" && got != c.want {
			t.Errorf("%s: %q, rejected %q; want %q, rejected %q", c.name, got, reason, c.want, c.rejected)
		}
	}
	if got, err := readProposal("New.", "Old.\n"); err != nil || got != "New.\n" {
		t.Errorf("the line break at the end: %q, %v", got, err)
	}
}

// FuzzReadProposal: no answer panics, and an accepted one has the old instruction's
// placeholders.
func FuzzReadProposal(f *testing.F) {
	f.Add("```\nBe {a?}\n```", "{a?}")
	f.Add("{{a}} <b?> {!c}", "<b?>")
	f.Fuzz(func(t *testing.T, answer, old string) {
		text, err := readProposal(answer, old)
		if err == nil && compareKept(text, old) != nil {
			t.Errorf("%q has other placeholders than %q", text, old)
		}
	})
}
