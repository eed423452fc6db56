package testcommand

import (
	"context"
	"fmt"

	"agenthost/internal/command"
	"agenthost/pkg/spec"
	"agenthost/wing/apptest"
)

// listedTest is a test in --list --output json.
type listedTest struct {
	App  string `json:"app"`
	Name string `json:"name"`
	File string `json:"file"`
	Line int    `json:"line"`
}

// listTests prints the tests that match --run, without running them. It lists no test of an app with
// errors, and reports the errors.
func (t *tester) listTests(ctx context.Context, dirs []string) error {
	apps, err := command.DiscoverApps(dirs)
	if err != nil {
		return err
	}
	listed := []listedTest{}
	var problems spec.Diagnostics
	for _, dir := range apps {
		suite, ds := apptest.OpenSuite(ctx, t.loader, dir)
		problems = append(problems, ds...)
		if suite == nil {
			continue
		}
		for _, test := range suite.Tests {
			if t.name.MatchString(test.Name) {
				listed = append(listed, listedTest{suite.App, test.Name, test.Pos.File, test.Pos.Line})
			}
		}
	}
	if t.flags.format == "json" {
		err = t.env.PrintJSON(map[string]any{"problems": problems, "tests": listed})
	} else if err = problems.WriteText(t.env.Err); err == nil {
		for _, l := range listed {
			if _, err = fmt.Fprintf(t.env.Out, "%s:%d: %s: %s\n", l.File, l.Line, l.App, l.Name); err != nil {
				break
			}
		}
	}
	switch {
	case err != nil:
		return command.FailWith(err)
	case problems.HasErrors():
		return &command.ExitError{Code: command.ExitProblems}
	}
	return nil
}
