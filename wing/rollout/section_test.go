package rollout_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/wing/rollout"
)

// loadSection loads an app with a rollout, and returns it with its problems.
func loadSection(t *testing.T, reload, section string) (*runtime.App, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "shop")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"app.yaml":        "models: {m: {provider: scripted, script: s.yaml}}\n" + reload + "\nrollout: " + section + "\n",
		"root_agent.yaml": "name: desk\nmodel: m\ninstruction: x\n",
		"s.yaml":          "- text: hi\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	app, problems := loader.New(testenv.Kinds(), nil).Load(t.Context(), dir)
	if err := problems.Err(); err != nil {
		return nil, err.Error()
	}
	t.Cleanup(app.Close)
	return app, ""
}

const newSessions = "reload: {sessions: new_sessions}"

// Each problem of rollout is reported at its place, with the value and the way out.
func TestSectionProblems(t *testing.T) {
	const abort = "abort: [\"above(failed, 0.1)\"]"
	steps := func(list string) string { return "{steps: [" + list + "], " + abort + "}" }
	for section, want := range map[string]string{
		"{" + abort + "}":                                    "steps",
		"{steps: [{share: 1}]}":                              "abort",
		"{steps: [{share: 1}], abort: []}":                   "abort requires at least one condition",
		`{steps: [{share: 1}], abort: [failed]}`:             `"failed" is not a condition`,
		"{steps: [{share: 1}], abort: [above(failed, 0.1)]}": `in [ ] a comma ends an item: quote the condition, such as ["above(failed, 0.1)"]`,
		steps(""):                                         "steps must be from 1 to 20, got 0",
		steps(strings.Repeat("{share: 1},", 21)):          "steps must be from 1 to 20, got 21",
		steps("{share: 5}"):                               "share must be above 0 and at most 1, got 5",
		steps("{share: 0}"):                               "share must be above 0 and at most 1, got 0",
		steps("{share: 0.5}, {share: 0.2}"):               "share 0.2 is not above that of the step before, 0.5",
		steps("{share: 0.5}"):                             "the last step has share 0.5",
		steps("{share: 1, min: 0}"):                       "min must be 1 or more, got 0",
		steps("{share: 1, for: 91d}"):                     "for must be at most 90d",
		"{wait: 25h, steps: [{share: 1}], " + abort + "}": "wait must be at most 24h0m0s",
		"{always: 'state.x == \"" + strings.Repeat("x", 2000) + "\"', steps: [{share: 1}], " + abort + "}": "always exceeds the limit of 2000 bytes, got 2013",
		"{steps: [{share: 1}], abort: [\"above(failed," + strings.Repeat(" ", 200) + "0.1)\"]}":            "is not a condition",
		"{by: team, steps: [{share: 1}], " + abort + "}":                                                   "team",
		"{always: state.x +, steps: [{share: 1}], " + abort + "}":                                          "always",
		"{steps: [{share: 1}], abort: [" + strings.Repeat(`"above(failed, 0.1)",`, 11) + "]}":              "abort exceeds the limit of 10, got 11",
	} {
		if _, got := loadSection(t, newSessions, section); !strings.Contains(got, want) {
			t.Errorf("%.80s reports %q, want %q", section, got, want)
		}
	}
	const whole = "{steps: [{share: 0.05, for: 1h, min: 30}, {share: 1}], abort: [\"above(failed, 0.1)\"]}"
	if _, got := loadSection(t, "", whole); !strings.Contains(got, "rollout requires reload: {sessions: new_sessions}") {
		t.Errorf("without new_sessions: %q", got)
	}
	app, problems := loadSection(t, newSessions, whole)
	if problems != "" {
		t.Fatal(problems)
	}
	plan, _ := app.Section("rollout").(*rollout.Plan)
	if plan == nil || len(plan.Steps) != 2 || plan.Steps[0].Min != 30 || plan.Abort[0].Source != "above(failed, 0.1)" || plan.Wait.Minutes() != 5 {
		t.Errorf("plan %+v", plan)
	}
}
