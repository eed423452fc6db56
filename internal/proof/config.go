package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// A configState is what a host says of an app's files.
type configState struct {
	Revision    string            `json:"revision"`
	OK          bool              `json:"ok"`
	Diagnostics []json.RawMessage `json:"diagnostics"`
}

func (c *client) readDiagnostics(ctx context.Context) (s configState, err error) {
	body, err := c.sendRequest(ctx, http.MethodGet, "/apps/"+c.app+"/diagnostics", nil)
	if err != nil {
		return s, err
	}
	defer body.Close()
	err = json.NewDecoder(body).Decode(&s)
	return s, err
}

// waitForConfig waits until the host says what is looked for.
func (c *client) waitForConfig(ctx context.Context, what string, there func(s configState) bool) (s configState, err error) {
	err = pollUntil(ctx, what, func() (bool, error) {
		var err error
		s, err = c.readDiagnostics(ctx)
		return err == nil && there(s), err
	})
	return s, err
}

// configRows saves an app twenty times, breaks it, and goes back to each of
// its revisions: the host says at each time what serves, and why what lies in the
// folder does not.
func configRows(ctx context.Context, l *lab) ([]row, error) {
	const revisions = 20
	dir := filepath.Join(l.dir, "config")
	app, db := configProofPaths(dir)
	if err := (files{"root_agent.yaml": describedAgent("first")}).writeTo(app); err != nil {
		return nil, err
	}
	h, err := serveSQLite(ctx, l, db, filepath.Join(dir, "apps"))
	if err != nil {
		return nil, err
	}
	defer h.kill()
	c := newClient(h.url, "said", "none")
	defer c.close()
	s, err := c.waitForConfig(ctx, "the first revision", func(s configState) bool { return s.OK })
	if err != nil {
		return nil, err
	}
	var all []string
	for i := range revisions {
		if err := saveFile(rootAgentPath(app), describedAgent(fmt.Sprintf("number %d", i))); err != nil {
			return nil, err
		}
		before := s.Revision
		if s, err = c.waitForConfig(ctx, "a save", func(s configState) bool { return s.OK && s.Revision != before }); err != nil {
			return nil, err
		}
		all = append(all, s.Revision)
	}
	if err := saveFile(rootAgentPath(app), "name: a\ninstructon: slip\n"); err != nil {
		return nil, err
	}
	broken, err := c.waitForConfig(ctx, "a broken save", func(s configState) bool { return !s.OK })
	if err != nil {
		return nil, err
	}
	latencies, err := measureRollbacks(ctx, l, c, all)
	if err != nil {
		return nil, err
	}
	slices.Sort(latencies)
	rejectedErr := exec.CommandContext(ctx, l.bin, "rollback", app, "ffff", "--session-db", "sqlite:///"+db).Run()
	longest := latencies[len(latencies)-1]
	return []row{{
		"M8: a host says what serves and why a save does not, and goes back to any of 20 revisions in less than 1 s",
		fmt.Sprintf("a broken save: revision as before: %v, problems told: %d; %d rollbacks, median %s, longest %s; control, a revision that is not kept is refused: %v",
			broken.Revision == all[revisions-1], len(broken.Diagnostics), len(latencies), roundMillis(latencies[len(latencies)/2]), roundMillis(longest), rejectedErr != nil),
		broken.Revision == all[revisions-1] && len(broken.Diagnostics) > 0 && longest < time.Second && rejectedErr != nil,
	}}, nil
}

// configProofPaths are the app and the database in the folder of the topic.
func configProofPaths(dir string) (app, db string) {
	return filepath.Join(dir, "apps", "said"), filepath.Join(dir, "config.db")
}

// measureRollbacks goes back to each revision, and returns how long it took until the
// host said that it serves.
func measureRollbacks(ctx context.Context, l *lab, c *client, all []string) ([]time.Duration, error) {
	app, db := configProofPaths(filepath.Join(l.dir, "config"))
	var latencies []time.Duration
	for _, rev := range all {
		began := time.Now()
		cmd := exec.CommandContext(ctx, l.bin, "rollback", app, rev, "--session-db", "sqlite:///"+db)
		cmd.Dir = l.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, errors.Join(fmt.Errorf("rollback said %q", out), err)
		}
		if _, err := c.waitForConfig(ctx, "a rollback", func(s configState) bool { return s.OK && s.Revision == rev }); err != nil {
			return nil, err
		}
		latencies = append(latencies, time.Since(began))
	}
	return latencies, nil
}
