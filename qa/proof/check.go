package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"
)

const (
	checkRuns  = 3
	checkLimit = time.Second
)

// checkManyAgents runs the check command on a hundred apps with ten agents each.
func checkManyAgents(ctx context.Context, l *lab) ([]row, error) {
	apps := filepath.Join(l.dir, "check")
	if err := generateApps(100, 10).writeTo(apps); err != nil {
		return nil, err
	}
	var wall, cpu time.Duration
	for i := range checkRuns {
		cmd := exec.CommandContext(ctx, l.bin, "check", apps)
		began := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("check: %w: %s", err, out)
		}
		took, used := time.Since(began), cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()
		if i == 0 || took < wall {
			wall, cpu = took, used
		}
	}
	return []row{{
		"check validates 1000 agents in less than 1 s",
		fmt.Sprintf("%s, with %s of CPU time, best of %d", roundMillis(wall), roundMillis(cpu), checkRuns),
		wall < checkLimit,
	}}, nil
}
