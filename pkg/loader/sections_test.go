package loader

import (
	"context"
	"errors"
	"strings"
	"testing"

	"agenthost/pkg/spec"
)

// bannerConfig is a section of a program.
type bannerConfig struct {
	Text string `yaml:"text" required:"true" doc:"The banner."`
}

// bannerSection builds the banner for an agent tree, and fails for an empty one.
func bannerSection() spec.Kind[SectionEnv, any] {
	return spec.NewKind("banner", "A banner.", func(_ context.Context, env SectionEnv, c *bannerConfig) (any, error) {
		if c.Text == "" {
			return nil, errors.New("the banner is empty")
		}
		return c.Text + " for " + env.App + " with " + env.Root.Name(), nil
	})
}

// A program adds sections to app.yaml: they are built once the agents are, checked and described
// with the document's own fields, and unknown to a program without them.
func TestSections(t *testing.T) {
	s := newWatchEnv(t)
	s.writeFile("x/root_agent.yaml", "name: root\nmodel: m\ninstruction: y\n")
	s.writeFile("x/s.yaml", "- text: hi\n")
	with := listKinds()
	with.Sections = spec.Kinds[SectionEnv, any]{bannerSection()}
	for _, c := range []struct{ section, want, without string }{
		{"banner: {text: sale}", "", `unknown field "banner"`},
		{"banner:", "", `unknown field "banner"`},
		{"baner: {text: sale}", `did you mean "banner"`, `unknown field "baner"`},
		{"banner: {txt: sale}", `app.yaml:2:10: unknown field "txt"`, `unknown field "banner"`},
		{"banner: [sale]", "app.yaml:2:9: expected a mapping", `unknown field "banner"`},
		{"banner: {text: ''}", `app.yaml:2:9: the banner is empty [banner]`, `unknown field "banner"`},
	} {
		s.writeFile("x/app.yaml", "models: {m: {provider: scripted, script: s.yaml}}\n"+c.section+"\n")
		app, ds := New(with, nil).Load(t.Context(), s.path("x"))
		if got := ds.Error(); c.want == "" && app == nil || c.want != "" && !strings.Contains(got, c.want) {
			t.Errorf("%s: problems = %s, want %s", c.section, got, c.want)
		}
		if app != nil {
			if got := app.Section("banner"); c.section == "banner:" && got != nil || c.section != "banner:" && got != "sale for x with root" {
				t.Errorf("%s: Section = %v", c.section, got)
			}
			app.Close()
		}
		without := with
		without.Sections = nil
		if got := New(without, nil).Check(t.Context(), s.path("x")).Error(); !strings.Contains(got, c.without) {
			t.Errorf("%s without the section: problems = %s, want %s", c.section, got, c.without)
		}
	}
}
