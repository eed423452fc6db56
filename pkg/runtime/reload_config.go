package runtime

import "agenthost/pkg/spec"

// A SessionPolicy selects the revision that existing sessions use after an app
// has changed.
type SessionPolicy string

// The session policies. The empty policy is FollowNextTurn.
const (
	FollowNextTurn    SessionPolicy = "next_turn"    // the newest revision, from the next turn on
	FollowNewSessions SessionPolicy = "new_sessions" // the revision with which the session started
	FollowManual      SessionPolicy = "manual"       // the newest revision that was activated manually
)

// GateTests is the gate that runs the tests of an app.
const GateTests = "tests"

// DefaultKeepRevisions is the default of keep_revisions.
const DefaultKeepRevisions = 20

// A ReloadConfig configures how changes of an app's files are published: reload
// in app.yaml.
type ReloadConfig struct {
	Sessions      SessionPolicy `yaml:"sessions" enum:"next_turn|new_sessions|manual" default:"next_turn" doc:"When a change takes effect: for every session with its next turn, only for new sessions, or only after SIGHUP, POST /-/reload or a restart."`
	Gate          []string      `yaml:"gate" enum:"tests" doc:"Checks that must pass before a change is published: tests runs all tests of the app. If one fails, the current revision keeps serving."`
	KeepRevisions int           `yaml:"keep_revisions" default:"20" doc:"Number of revisions whose files the session database keeps, including the current one."`
}

// DefaultReloadConfig returns the config of an app without reload.
func DefaultReloadConfig() ReloadConfig {
	return ReloadConfig{Sessions: FollowNextTurn, KeepRevisions: DefaultKeepRevisions}
}

// Check reports numbers out of range at their position in n, the mapping that the
// config was decoded from.
func (c *ReloadConfig) Check(n *spec.Node) spec.Diagnostics {
	if c.KeepRevisions >= 1 {
		return nil
	}
	return spec.Diagnostics{n.Get("keep_revisions").Errorf("value", "keep_revisions must be 1 or more: the current revision is always kept")}
}
