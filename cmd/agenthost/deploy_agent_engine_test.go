package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// engineAddress is the address that Agent Engine's runtime contract requires.
const engineAddress = "0.0.0.0:8080"

// The Agent Engine deployment sets serve flags to valid values and listens where the runtime sends
// requests, and its image has apps where the agenthost image serves them.
func TestAgentEngine(t *testing.T) {
	var engine struct {
		Spec struct {
			DeploymentSpec struct {
				Env       []struct{ Name, Value string }
				SecretEnv []struct {
					Name      string
					SecretRef struct{ Secret, Version string }
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(readText(t, deployDir+"/agent-engine/engine.json")), &engine); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{}
	for _, e := range engine.Spec.DeploymentSpec.Env {
		env[e.Name] = e.Value
	}
	for _, e := range engine.Spec.DeploymentSpec.SecretEnv {
		env[e.Name] = ""
		if e.SecretRef.Secret == "" || e.SecretRef.Version == "" {
			t.Errorf("%s has no secret", e.Name)
		}
	}
	checkServeVariables(t, env)
	if env["AGENTHOST_ADDR"] != engineAddress {
		t.Errorf("agenthost listens on %s, the runtime sends requests to %s", env["AGENTHOST_ADDR"], engineAddress)
	}
	apps := ""
	for _, line := range strings.Split(readText(t, deployDir+"/agent-engine/Dockerfile"), "\n") {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "COPY" {
			apps = fields[2]
		}
	}
	if m := readImage(t); apps != m.args[1] {
		t.Errorf("apps are copied to %s, the image serves %s", apps, m.args[1])
	}
}
