package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"agenthost/internal/command"
)

// The services in deploy/compose.yaml: agenthost has serve flags with valid values, is published only
// to this machine, mounts its apps, and waits for the database, whose password is not in the file.
func TestComposeFile(t *testing.T) {
	type service struct {
		Build       struct{ Dockerfile string }
		Image       string
		Command     []string
		Ports       []string
		Volumes     []string
		Environment map[string]string
		Grace       string                                `yaml:"stop_grace_period"`
		DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
		Health      struct{ Test []string }               `yaml:"healthcheck"`
	}
	var file struct {
		Services map[string]service
		Volumes  map[string]any
	}
	decodeYAML(t, readText(t, deployDir+"/compose.yaml"), &file)
	host, database := file.Services["agenthost"], file.Services["database"]
	flags := newServeCommand(command.Env{}).Flags()
	for variable, value := range host.Environment {
		if flag, isFlag := strings.CutPrefix(variable, "AGENTHOST_"); isFlag {
			setFlag(t, flags, variable, strings.ReplaceAll(strings.ToLower(flag), "_", "-"), value)
		}
	}
	if host.Command[0] != "serve" {
		t.Errorf("%q does not serve", host.Command)
	}
	parseServeFlags(t, slices.Clone(host.Command[1:]))
	drain, err := flags.GetDuration("drain")
	if grace := parseSeconds(t, host.Grace); err != nil || grace < drain+shutdownTime || grace > time.Minute {
		t.Errorf("stop_grace_period is %s: drain takes %s, shutdown %s", grace, drain, shutdownTime)
	}
	if host.Environment["AGENTHOST_INSECURE"] == "true" {
		for _, p := range host.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("port %s is published without authentication", p)
			}
		}
	}
	for _, v := range slices.Concat(host.Volumes, database.Volumes) {
		name, _, _ := strings.Cut(v, ":")
		if _, ok := file.Volumes[name]; !ok && !strings.HasPrefix(name, "../") {
			t.Errorf("volume %s is not declared", name)
		}
	}
	if host.DependsOn["database"].Condition != "service_healthy" || len(database.Health.Test) == 0 {
		t.Error("agenthost does not wait until the database is healthy")
	}
	if !strings.HasPrefix(database.Environment["POSTGRES_PASSWORD"], "${POSTGRES_PASSWORD:?") || !strings.Contains(host.Environment["AGENTHOST_SESSION_DB"], "@database:5432/") {
		t.Error("the password is in the file, or agenthost does not use the database")
	}
	if host.Build.Dockerfile != "deploy/Dockerfile" || !strings.HasPrefix(database.Image, "docker.io/library/") {
		t.Errorf("images: %s and %s", host.Build.Dockerfile, database.Image)
	}
}
