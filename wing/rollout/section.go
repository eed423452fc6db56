package rollout

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

// sectionKey is the key in app.yaml, and the rule that its problems name.
const sectionKey = "rollout"

// Section returns the kind of rollout in app.yaml.
func Section() spec.Kind[loader.SectionEnv, any] {
	return spec.NewKind(sectionKey, "Gives a change to a share of the new sessions first, and takes it back if they are worse. It requires reload: {sessions: new_sessions}. See [rollout.md](rollout.md).",
		func(_ context.Context, env loader.SectionEnv, c *sectionConfig) (any, error) {
			if env.Reload == nil || env.Reload.Sessions != runtime.FollowNewSessions {
				return nil, errors.New("rollout requires reload: {sessions: new_sessions}: with the others, a session changes its revision in the middle")
			}
			return c.buildPlan(), nil
		})
}

// sectionConfig is rollout.
type sectionConfig struct {
	By     string        `yaml:"by" enum:"session|user" default:"session" doc:"What is assigned to a revision by chance: each session, or each user with all new sessions. With user, only a user's first session is counted."`
	Always spec.Expr     `yaml:"always" doc:"Expression over the state of a new session, such as state[\"user:beta\"] == true. Sessions for which it is true begin on the new revision; only ceilings count them."`
	Steps  []stepConfig  `yaml:"steps" required:"true" doc:"Shares of the new sessions, one after the other, at most 20. The last one has share 1: it ends the rollout."`
	Abort  []spec.Text   `yaml:"abort" required:"true" doc:"Conditions that take the change back, at most 10: above(failed, 0.1) if the failure rate is above 10 %; worse(failed, 0.02) if it is higher than that of the stable revision, by at least 2 %. All together abort at most 5 % of the rollouts by chance."`
	Wait   spec.Duration `yaml:"wait" default:"5m" doc:"How long after its start a session is counted, at most 24h. Later turns do not count."`
	Then   string        `yaml:"then" enum:"keep|move" default:"keep" doc:"After an abort, sessions on the new revision stay on it, or continue on the stable one with their next turn."`
}

// stepConfig is a step.
type stepConfig struct {
	Share float64       `yaml:"share" required:"true" doc:"Share of the new sessions, above 0 and at most 1, and greater than that of the step before."`
	For   spec.Duration `yaml:"for" doc:"How long the step takes at least. After twice that time without min sessions, the rollout pauses."`
	Min   int           `yaml:"min" default:"1" doc:"How many sessions on the new revision must be counted in the step."`
}

// Limits for rollout.
const (
	maxSteps      = 20
	maxConditions = 10
	maxAlways     = 2000
	maxWait       = 24 * time.Hour
	maxStep       = 90 * 24 * time.Hour
)

// alpha is how many rollouts all conditions together abort by chance, at most, as a share.
const alpha = 0.05

// Check reports values that are not in their range or form, at their position in n, the mapping
// that the config was decoded from.
func (c *sectionConfig) Check(n *spec.Node) spec.Diagnostics {
	ds := c.checkSteps(n.Get("steps"))
	abort := n.Get("abort")
	if len(c.Abort) > maxConditions {
		ds = append(ds, abort.Errorf(sectionKey, "abort exceeds the limit of %d, got %d", maxConditions, len(c.Abort)))
	}
	if abort != nil && len(c.Abort) == 0 {
		ds = append(ds, abort.Errorf(sectionKey, "abort requires at least one condition").WithHint(errorHint))
	}
	for i, source := range c.Abort {
		if _, err := parseCondition(source.Value); err != nil {
			hint := errorHint
			if strings.Count(source.Value, "(") != strings.Count(source.Value, ")") {
				hint = commaHint
			}
			ds = append(ds, abort.Items[i].Errorf(sectionKey, "%s", err).WithHint("%s", hint))
		}
	}
	if wait := time.Duration(c.Wait); wait < 0 || wait > maxWait {
		ds = append(ds, n.Get("wait").Errorf(sectionKey, "wait must be at most %s, got %s", maxWait, wait))
	}
	if size := len(c.Always.Value); size > maxAlways {
		ds = append(ds, n.Get("always").Errorf(sectionKey, "always exceeds the limit of %d bytes, got %d", maxAlways, size))
	} else if size > 0 {
		if _, err := template.CompileBool(c.Always.Value, alwaysEnv); err != nil {
			ds = append(ds, n.Get("always").Errorf(sectionKey, "always: %s", err))
		}
	}
	return ds
}

// alwaysEnv are the names for always.
var alwaysEnv = template.Env{"state": map[string]any{}}

func (c *sectionConfig) checkSteps(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	if n == nil {
		return nil // required
	}
	if len(c.Steps) == 0 || len(c.Steps) > maxSteps {
		return append(ds, n.Errorf(sectionKey, "steps must be from 1 to %d, got %d", maxSteps, len(c.Steps)))
	}
	before := 0.0
	for i, s := range c.Steps {
		at := n.Items[i]
		switch {
		case !(s.Share > 0 && s.Share <= 1):
			ds = append(ds, at.Get("share").Errorf(sectionKey, "share must be above 0 and at most 1, got %v", s.Share).WithHint("write 0.05 for 5 %%"))
		case s.Share <= before:
			ds = append(ds, at.Get("share").Errorf(sectionKey, "share %v is not above that of the step before, %v: a session never returns to the stable revision", s.Share, before))
		}
		before = max(before, s.Share)
		if t := time.Duration(s.For); t < 0 || t > maxStep {
			ds = append(ds, at.Get("for").Errorf(sectionKey, "for must be at most 90d, got %s", t))
		}
		if s.Min < 1 {
			ds = append(ds, at.Get("min").Errorf(sectionKey, "min must be 1 or more, got %d", s.Min))
		}
	}
	if last := c.Steps[len(c.Steps)-1]; last.Share < 1 && !ds.HasErrors() {
		ds = append(ds, n.Errorf(sectionKey, "the last step has share %v: a rollout ends with all sessions on one revision", last.Share).WithHint("add {share: 1}"))
	}
	return ds
}

// A Plan is an app's rollout in app.yaml. It is stored with a rollout, so that each replica decides by
// the plan that the rollout began with.
type Plan struct {
	By     string        `json:"by"`
	Always string        `json:"always,omitempty"`
	Steps  []step        `json:"steps"`
	Abort  []condition   `json:"abort"`
	Wait   time.Duration `json:"wait"`
	Then   string        `json:"then"`
}

// A step is a share for a time.
type step struct {
	Share float64       `json:"share"`
	For   time.Duration `json:"for"`
	Min   int           `json:"min"`
}

// buildPlan returns the plan of a config that was checked.
func (c *sectionConfig) buildPlan() *Plan {
	p := &Plan{By: c.By, Always: c.Always.Value, Wait: time.Duration(c.Wait), Then: c.Then}
	for _, s := range c.Steps {
		p.Steps = append(p.Steps, step{s.Share, time.Duration(s.For), s.Min})
	}
	for _, source := range c.Abort {
		condition, err := parseCondition(source.Value)
		if err != nil {
			panic(fmt.Sprintf("a condition that was not checked: %s", err))
		}
		p.Abort = append(p.Abort, condition)
	}
	return p
}
