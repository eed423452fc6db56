package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"

	"agenthost/internal/command"
	"agenthost/pkg/loader"
)

const (
	deployDir = repo + "/deploy"
	kubeDir   = deployDir + "/kubernetes"
	// shutdownTime is the time that a host needs after its drain period, to flush traces
	// and close its database.
	shutdownTime = 5 * time.Second
)

// image is the container that deploy/Dockerfile describes.
type image struct {
	user             string
	env              map[string]string
	build            string
	entrypoint, args []string
	health           []string
}

func readImage(t *testing.T) *image {
	t.Helper()
	m := &image{env: map[string]string{}}
	for line := range strings.Lines(readText(t, deployDir+"/Dockerfile")) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "ENV":
			name, value, _ := strings.Cut(rest, "=")
			m.env[name] = value
		case "USER":
			m.user = rest
		case "RUN":
			if strings.Contains(rest, "go build") {
				m.build = rest
			}
		case "HEALTHCHECK":
			_, rest, _ = strings.Cut(rest, "CMD ")
			decodeYAML(t, rest, &m.health)
		case "ENTRYPOINT":
			decodeYAML(t, rest, &m.entrypoint)
		case "CMD":
			decodeYAML(t, rest, &m.args)
		}
	}
	return m
}

// unit has the values of deploy/agenthost.service by key.
type unit map[string][]string

func readUnit(t *testing.T) unit {
	t.Helper()
	u := unit{}
	for line := range strings.Lines(readText(t, deployDir+"/agenthost.service")) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			u[key] = append(u[key], value)
		}
	}
	return u
}

// The deployments' settings are serve flags with valid values.
func TestDeployedSettings(t *testing.T) {
	m, pod := readImage(t), readPod(t)
	container := pod.container()
	variables := []map[string]string{m.env, container.variables(), readSecret(t)}
	flags := newServeCommand(command.Env{}).Flags()
	for _, set := range variables {
		for name, value := range set {
			if flag, isFlag := strings.CutPrefix(name, "AGENTHOST_"); isFlag {
				setFlag(t, flags, name, strings.ReplaceAll(strings.ToLower(flag), "_", "-"), value)
			}
		}
	}
	for name, value := range readSecret(t) {
		t.Setenv(name, value)
	}
	for _, deployment := range []struct {
		args []string
		host string // the file that is its /etc/agenthost/host.yaml
	}{
		{m.args, ""},
		{container.Args, kubeDir + "/host.yaml"},
		{strings.Fields(readUnit(t)["ExecStart"][0])[1:], deployDir + "/host.yaml"},
	} {
		if deployment.args[0] != "serve" {
			t.Fatalf("%q does not serve", deployment.args)
		}
		words := slices.Clone(deployment.args[1:])
		for i, w := range words {
			words[i] = strings.Replace(w, "/etc/agenthost/host.yaml", deployment.host, 1)
		}
		parseServeFlags(t, words)
	}
}

func setFlag(t *testing.T, flags *pflag.FlagSet, variable, name, value string) {
	t.Helper()
	if flags.Lookup(name) == nil {
		t.Errorf("%s: serve has no flag --%s", variable, name)
	} else if err := flags.Set(name, value); err != nil {
		t.Errorf("%s: %v", variable, err)
	}
}

// parseServeFlags parses serve's arguments and the config file that they name.
func parseServeFlags(t *testing.T, words []string) *serveFlags {
	t.Helper()
	cmd := newServeCommand(command.Env{})
	if err := cmd.ParseFlags(words); err != nil {
		t.Errorf("serve %q: %v", words, err)
	}
	flag := func(name string) string { return cmd.Flags().Lookup(name).Value.String() }
	f := serveFlags{config: flag("config")}
	if err := f.applyConfigFile(cmd.Flags()); err != nil {
		t.Errorf("serve %q: %v", words, err)
	}
	if _, err := f.loadAuth(); err != nil {
		t.Errorf("serve %q: %v", words, err)
	}
	if len(f.dirs) == 0 && cmd.Flags().NArg() == 0 {
		t.Errorf("serve %q names no folder", words)
	}
	f.drain = parseSeconds(t, flag("drain"))
	return &f
}

// The deployments' grace periods exceed the drain period plus shutdown.
func TestDeployedGracePeriods(t *testing.T) {
	for _, name := range []string{"OPS_TOKEN", "METRICS_TOKEN"} {
		t.Setenv(name, readSecret(t)[name])
	}
	pod := readPod(t)
	drain := parseServeFlags(t, []string{"--config", kubeDir + "/host.yaml"}).drain
	before := time.Duration(pod.container().Lifecycle.PreStop.Sleep.Seconds) * time.Second
	if grace := time.Duration(pod.Grace) * time.Second; grace < before+drain+shutdownTime {
		t.Errorf("terminationGracePeriodSeconds is %s: preStop takes %s, drain %s, shutdown %s", grace, before, drain, shutdownTime)
	}
	drain = parseServeFlags(t, []string{"--config", deployDir + "/host.yaml"}).drain
	if stop := parseSeconds(t, readUnit(t)["TimeoutStopSec"][0]); stop < drain+shutdownTime {
		t.Errorf("TimeoutStopSec is %s: drain takes %s, shutdown %s", stop, drain, shutdownTime)
	}
}

// The deployed apps load without problems.
func TestDeployedAppsLoad(t *testing.T) {
	apps, err := loader.Discover(kubeDir + "/apps")
	if err != nil || len(apps) == 0 {
		t.Fatalf("no apps: %v", err)
	}
	for _, app := range apps {
		if ds := newLoader(nil).Check(t.Context(), app); len(ds) > 0 {
			t.Errorf("%s: %v", app, ds)
		}
	}
}

// The image is built with the module's Go version, and its user is not root.
func TestDeployedImage(t *testing.T) {
	module, file := readText(t, repo+"/go.mod"), readText(t, deployDir+"/Dockerfile")
	_, version, _ := strings.Cut(file, "ARG GO=")
	version, _, _ = strings.Cut(version, "\n")
	if !strings.Contains(module, "\ngo "+version+".") {
		t.Errorf("the Dockerfile builds with Go %s, go.mod requires another version", version)
	}
	for line := range strings.Lines(file) {
		// Podman and buildah on Debian do not resolve short image names.
		if name, ok := strings.CutPrefix(line, "FROM "); ok && name != "scratch\n" && !strings.HasPrefix(name, "docker.io/library/") {
			t.Errorf("the image %q has no registry", strings.TrimSpace(name))
		}
	}
	if m := readImage(t); m.user == "" || strings.HasPrefix(m.user, "0") || !strings.HasPrefix(m.build, "CGO_ENABLED=0 ") {
		t.Errorf("the image runs as %q and is built by %q", m.user, m.build)
	}
}

// systemd-analyze verifies the unit, and rates its exposure as low.
func TestDeployedUnit(t *testing.T) {
	u := readUnit(t)
	if u["ExecReload"][0] != "/bin/kill -HUP $MAINPID" || u["DynamicUser"][0] != "yes" || u["WorkingDirectory"][0] != "/var/lib/"+u["StateDirectory"][0] {
		t.Errorf("the unit is %v", u)
	}
	text := readText(t, deployDir+"/agenthost.service")
	if out := analyzeUnit(t, text); out != "" {
		t.Errorf("systemd-analyze: %s", out)
	}
	if out := analyzeUnit(t, strings.Replace(text, "DynamicUser=", "DynamicUsers=", 1)); !strings.Contains(out, "Unknown key 'DynamicUsers'") {
		t.Errorf("systemd-analyze does not report an unknown key: %s", out)
	}
}

// analyzeUnit returns what systemd-analyze reports about a unit. The machine's own units are hidden
// from it, because their warnings would appear here.
func analyzeUnit(t *testing.T, text string) string {
	t.Helper()
	program, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("SKIPPED: systemd-analyze is not installed; hint: apt-get install systemd")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "agenthost.service")
	// systemd-analyze checks that the programs exist, which may not be installed here.
	text = strings.NewReplacer("ExecStart=/usr/local/bin/agenthost", "ExecStart="+self, "ExecReload=/bin/kill", "ExecReload="+self).Replace(text)
	units := map[string]string{"agenthost.service": text}
	for _, target := range []string{"basic", "sysinit", "shutdown", "network-online", "multi-user"} {
		units[target+".target"] = "[Unit]\nDescription=" + target + "\n"
	}
	for name, text := range units {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var report strings.Builder
	for _, args := range [][]string{{"verify", file}, {"security", "--offline=true", "--threshold=15", file}} {
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+dir)
		out, err := cmd.CombinedOutput()
		if err != nil || args[0] == "verify" && len(bytes.TrimSpace(out)) > 0 {
			fmt.Fprintf(&report, "%s: %v\n%s", args[0], err, out)
		}
	}
	return report.String()
}

func decodeYAML(t *testing.T, text string, v any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func parseSeconds(t *testing.T, text string) time.Duration {
	t.Helper()
	if n, err := strconv.Atoi(text); err == nil {
		return time.Duration(n) * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
