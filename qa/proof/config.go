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

// A configState is an app's reload status.
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

// waitForConfig polls the reload status until the condition holds.
func (c *client) waitForConfig(ctx context.Context, what string, isReached func(s configState) bool) (s configState, err error) {
	err = pollUntil(ctx, what, func() (bool, error) {
		var err error
		s, err = c.readDiagnostics(ctx)
		return err == nil && isReached(s), err
	})
	return s, err
}

// configRows is M8. It saves an app twenty times, breaks it, and rolls back to each revision. The
// host must report the active revision and the failed save's errors.
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
	c := newClient(h.url, "config", "none")
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
		"M8: the host reports the active revision and why a save failed, and rolls back to any of 20 revisions in less than 1 s",
		fmt.Sprintf("failed save: revision unchanged: %v, diagnostics: %d; %d rollbacks, median %s, longest %s; control, an unknown revision is rejected: %v",
			broken.Revision == all[revisions-1], len(broken.Diagnostics), len(latencies), roundMillis(latencies[len(latencies)/2]), roundMillis(longest), rejectedErr != nil),
		broken.Revision == all[revisions-1] && len(broken.Diagnostics) > 0 && longest < time.Second && rejectedErr != nil,
	}}, nil
}

// configProofPaths returns the app folder and the database.
func configProofPaths(dir string) (app, db string) {
	return filepath.Join(dir, "apps", "config"), filepath.Join(dir, "config.db")
}

// measureRollbacks rolls back to each revision and returns the times until the host
// reported it as active.
func measureRollbacks(ctx context.Context, l *lab, c *client, all []string) ([]time.Duration, error) {
	app, db := configProofPaths(filepath.Join(l.dir, "config"))
	var latencies []time.Duration
	for _, rev := range all {
		began := time.Now()
		cmd := exec.CommandContext(ctx, l.bin, "rollback", app, rev, "--session-db", "sqlite:///"+db)
		cmd.Dir = l.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, errors.Join(fmt.Errorf("rollback printed %q", out), err)
		}
		if _, err := c.waitForConfig(ctx, "a rollback", func(s configState) bool { return s.OK && s.Revision == rev }); err != nil {
			return nil, err
		}
		latencies = append(latencies, time.Since(began))
	}
	return latencies, nil
}
