package template_test

import (
	"strings"
	"testing"

	"agenthost/pkg/template"
)

// Strings that are compared with a member are found at their quotes.
func TestMemberLiterals(t *testing.T) {
	for src, want := range map[string]string{
		`calls[0].name == "find"`:                        "name find",
		`"find" == calls[0].name`:                        "name find",
		`any(calls, .name == "find" and .args.id == 7)`:  "name find",
		`none(events, .author in ["desk", "é", "x"])`:    "author desk, author é, author x",
		`map(texts, .agent) == ["desk", "writer"]`:       "agent desk, agent writer",
		`calls[0]?.name != 'find'`:                       "name find",
		`tool.name == "find" and a[0].args.id == "x"`:    "tool.name find, args.id x",
		`text == "find" or text contains "find"`:         "",
		`calls[0].name ==`:                               "",
		`count(requests, .agent == "a") == 2 or 1 in []`: "agent a",
	} {
		var got []string
		for _, l := range template.MemberLiterals(src) {
			got = append(got, strings.TrimPrefix(l.Owner+".", ".")+l.Member+" "+l.Value)
			if !strings.HasPrefix(src[l.Offset+1:], l.Value) {
				t.Errorf("%s: offset %d is not that of %s", src, l.Offset, l.Value)
			}
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("MemberLiterals(%s) = %q, want %q", src, got, want)
		}
	}
}
