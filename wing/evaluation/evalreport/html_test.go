package evalreport

import (
	"crypto/sha256"
	"encoding/base64"
	"html"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/wing/evaluation/eval"
)

const hostile = `</style></dd><script>alert(1)</script><img src=x onerror="alert(2)">'"` + "\u2028"

// hostileOutcome has an attacker's string in each field that a page shows.
func hostileOutcome() *eval.Outcome {
	score, turn := 0.5, 0
	metric := &eval.MetricResult{
		Metric: hostile, Score: &score, Status: eval.Failed,
		Details: &eval.Details{RubricScores: []*eval.RubricScore{{RubricID: hostile, Rationale: hostile, Score: &score}}},
	}
	inv := &eval.Invocation{
		UserContent: genai.NewContentFromText(hostile, "user"), FinalResponse: genai.NewContentFromText(hostile, "model"),
		Intermediate: &eval.Intermediate{ToolUses: []*genai.FunctionCall{{Name: hostile, Args: map[string]any{hostile: hostile}}}},
	}
	return &eval.Outcome{SetID: hostile, CaseID: hostile, Status: eval.Failed, Model: hostile, Metrics: []*eval.MetricResult{metric}, Runs: []*eval.CaseResult{{
		Status: eval.Failed, Turns: []*eval.TurnResult{{Actual: inv, Expected: &eval.Invocation{UserContent: inv.UserContent}, Metrics: []*eval.MetricResult{metric}}},
		Notes: []*eval.Note{{Reason: hostile, Judge: hostile, Answer: hostile}, {Turn: &turn, Metric: hostile, Reason: hostile, Answer: hostile}},
	}}}
}

func renderPage(t *testing.T, o *eval.Outcome) string {
	t.Helper()
	r, err := New("html", false)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := &Case{Outcome: o, anchor: "case-1"}
	comparison := &Comparison{SetID: hostile, Model: hostile, Baseline: hostile, BaselineModel: hostile, Regressions: []string{hostile}, Missing: []string{hostile}}
	c.text, err = r.texts.appendText(r.formatPageCase(c))
	r.Cases, r.Comparisons, r.Files = []*Case{c}, []*Comparison{comparison}, []string{hostile}
	var b strings.Builder
	if err == nil {
		err = r.Write(&b, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Texts from users, models and judges are escaped. The page has no scripts and loads nothing,
// and its policy allows its own style only. The control is the page without its escapes.
func TestPageHostile(t *testing.T) {
	page := renderPage(t, hostileOutcome())
	control := 0
	for _, pattern := range []string{`<script`, `<img`, `<[a-z]+[^>]*\s(onerror|src)=`, `href="[^#]`, `url\(`, `@import`} {
		control += len(regexp.MustCompile(pattern).FindAllString(html.UnescapeString(page), -1))
		if at := regexp.MustCompile(pattern).FindStringIndex(page); at != nil {
			t.Errorf("the page has %s: %s", pattern, page[max(at[0]-40, 0):min(at[1]+40, len(page))])
		}
	}
	if n := strings.Count(page, "&lt;script&gt;"); n < 15 {
		t.Errorf("the page shows %d of the texts, want at least 15", n)
	}
	t.Logf("shown: %d hostile texts in a page of evaluation results: no element, attribute or address of them; control, without escapes: %d", strings.Count(page, "&lt;script&gt;"), control)
	if control == 0 {
		t.Error("control: the page without escapes is harmless")
	}
	hash := sha256.Sum256([]byte(page[strings.Index(page, "<style>")+7 : strings.Index(page, "</style>")]))
	if want := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) + "'"; !strings.Contains(html.UnescapeString(page), want) {
		t.Errorf("the page has no policy %s", want)
	}
	if n := strings.Count(page, "</style>"); n != 1 {
		t.Errorf("the page has %d ends of styles, want 1", n)
	}
}

// Long texts are shortened, and conversations beyond the limit are left out.
func TestPageLimits(t *testing.T) {
	o := hostileOutcome()
	o.Runs[0].Turns[0].Actual.FinalResponse = genai.NewContentFromText(strings.Repeat("long ", 100_000), "model")
	if page := renderPage(t, o); len(page) > 200_000 || !strings.Contains(page, "…") {
		t.Errorf("the page has %d bytes, want a shortened response", len(page))
	}
}

func TestDiffWords(t *testing.T) {
	for _, tt := range []struct {
		expected, actual string
		want             []diffPart
	}{
		{"a b c", "a b c", []diffPart{{"same", "a b c"}}},
		{"a b c", "a x c d", []diffPart{{"same", "a"}, {"missing", "b"}, {"extra", "x"}, {"same", "c"}, {"extra", "d"}}},
		{"", "a b", []diffPart{{"extra", "a b"}}},
		{"a", "", []diffPart{{"missing", "a"}}},
		{"", "", nil},
		{strings.Repeat("a ", maxDiffWords+1), "b", []diffPart{{"missing", strings.Repeat("a ", maxDiffWords+1)}, {"extra", "b"}}},
	} {
		if diff := cmp.Diff(tt.want, diffWords(tt.expected, tt.actual)); diff != "" {
			t.Errorf("diffWords(%.20q, %.20q) (-want +got):\n%s", tt.expected, tt.actual, diff)
		}
	}
}

func TestDiffCalls(t *testing.T) {
	calls := func(names ...string) *eval.Invocation {
		inv := &eval.Invocation{Intermediate: &eval.Intermediate{}}
		for _, name := range names {
			inv.Intermediate.ToolUses = append(inv.Intermediate.ToolUses, &genai.FunctionCall{Name: name})
		}
		return inv
	}
	for _, tt := range []struct {
		expected, actual, want string
	}{
		{"a b", "a b", "same a({}) same b({})"},
		{"a b", "x a b y", "extra x({}) same a({}) same b({}) extra y({})"},
		{"a b c", "a c", "same a({}) missing b({}) same c({})"},
		{"a", "", "missing a({})"},
		{"", "a", "extra a({})"},
	} {
		var got []string
		for _, p := range diffCalls(calls(strings.Fields(tt.expected)...), calls(strings.Fields(tt.actual)...)) {
			got = append(got, p.Kind+" "+p.Text)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("diffCalls(%s, %s) = %v, want %s", tt.expected, tt.actual, got, tt.want)
		}
	}
}
