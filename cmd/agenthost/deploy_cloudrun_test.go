package main

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"agenthost/internal/command"
)

// cloudRunGrace is the time between SIGTERM and the end of a Cloud Run instance.
const cloudRunGrace = 10 * time.Second

// The Cloud Run service sets serve flags to valid values, sends requests to the image's port,
// probes existing paths, and lets turns end within the time that Cloud Run gives.
func TestCloudRunService(t *testing.T) {
	var service struct {
		Spec struct {
			Template struct {
				Spec struct {
					Containers []struct {
						Ports []struct {
							Number int `yaml:"containerPort"`
						} `yaml:"ports"`
						Env []struct {
							Name, Value string
						} `yaml:"env"`
						Probe struct {
							Get struct{ Path string } `yaml:"httpGet"`
						} `yaml:"startupProbe"`
						Live struct {
							Get struct{ Path string } `yaml:"httpGet"`
						} `yaml:"livenessProbe"`
						Mounts []struct {
							Path string `yaml:"mountPath"`
						} `yaml:"volumeMounts"`
					} `yaml:"containers"`
				} `yaml:"spec"`
			} `yaml:"template"`
		} `yaml:"spec"`
	}
	decodeYAML(t, readText(t, deployDir+"/cloud-run/service.yaml"), &service)
	container, m := service.Spec.Template.Spec.Containers[0], readImage(t)
	_, port, _ := strings.Cut(m.env["AGENTHOST_ADDR"], ":")
	if strconv.Itoa(container.Ports[0].Number) != port {
		t.Errorf("requests go to port %d, the image listens on %s", container.Ports[0].Number, port)
	}
	env := map[string]string{}
	for _, e := range container.Env {
		env[e.Name] = e.Value
	}
	checkServeVariables(t, env)
	if paths := []string{container.Probe.Get.Path, container.Live.Get.Path}; !slices.Equal(paths, []string{"/livez", "/livez"}) {
		t.Errorf("the probes request %q", paths)
	}
	if container.Mounts[0].Path != m.args[1] {
		t.Errorf("apps are mounted at %s, the image serves %s", container.Mounts[0].Path, m.args[1])
	}
}

// checkServeVariables checks that agenthost variables are serve flags with valid values, and that
// turns end within the time that Google's runtimes give. An empty value is a secret.
func checkServeVariables(t *testing.T, env map[string]string) {
	t.Helper()
	flags := newServeCommand(command.Env{}).Flags()
	for variable, value := range env {
		flag, isFlag := strings.CutPrefix(variable, "AGENTHOST_")
		if name := strings.ReplaceAll(strings.ToLower(flag), "_", "-"); isFlag && value != "" {
			setFlag(t, flags, variable, name, value)
		} else if isFlag && flags.Lookup(name) == nil {
			t.Errorf("%s: serve has no flag --%s", variable, name)
		}
	}
	if drain, err := flags.GetDuration("drain"); err != nil || drain+shutdownTime > cloudRunGrace {
		t.Errorf("drain %s and %s to shut down exceed the %s of Cloud Run", drain, shutdownTime, cloudRunGrace)
	}
}
