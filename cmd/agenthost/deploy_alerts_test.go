package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"agenthost/internal/command"
)

const (
	alertsFile    = deployDir + "/prometheus/alerts.yaml"
	dashboardFile = deployDir + "/grafana/agenthost.json"
)

// metricLabels has the label names of each metric.
type metricLabels map[string][]string

// alertRule is a rule in deploy/prometheus/alerts.yaml.
type alertRule struct {
	Alert, Expr         string
	Labels, Annotations map[string]string
}

// alertCase is a test in deploy/prometheus/alerts_test.yaml, which promtool runs ("make alerts").
type alertCase struct {
	Name  string
	Rules []struct {
		Alert string     `yaml:"alertname"`
		Fires []struct{} `yaml:"exp_alerts"`
	} `yaml:"alert_rule_test"`
}

// Each alert names metrics that serve exports, and has a severity, a runbook section, a test in
// which it fires, and one in which it does not.
func TestAlerts(t *testing.T) {
	var file struct{ Groups []struct{ Rules []alertRule } }
	decodeYAML(t, readText(t, alertsFile), &file)
	var tests struct{ Tests []alertCase }
	decodeYAML(t, readText(t, strings.Replace(alertsFile, ".yaml", "_test.yaml", 1)), &tests)
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, c := range tests.Tests {
		for _, r := range c.Rules {
			set := silent
			if len(r.Fires) > 0 {
				set = fires
			}
			set[r.Alert] = true
		}
	}
	exported, runbook, errorCodes := exportedMetrics(t), readText(t, repo+"/docs/runbook.md"), readText(t, repo+"/docs/errors.md")
	exported["up"] = nil // Prometheus makes it for each target
	sections := strings.Count(runbook, "\n## Agenthost")
	for _, r := range file.Groups[0].Rules {
		for _, problem := range findUnknownNames(r.Expr, exported) {
			t.Errorf("%s: %s", r.Alert, problem)
		}
		for _, code := range regexp.MustCompile(`[A-Z]+(_[A-Z]+)+`).FindAllString(r.Expr, -1) {
			if !strings.Contains(errorCodes, "`"+code+"`") {
				t.Errorf("%s: docs/errors.md has no code %s", r.Alert, code)
			}
		}
		if link := "docs/runbook.md#" + strings.ToLower(r.Alert); r.Annotations["runbook"] != link || !strings.Contains(runbook, "\n## "+r.Alert+"\n") {
			t.Errorf("%s: the runbook has no section, or the annotation is not %s", r.Alert, link)
		}
		if s := r.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s: severity %q", r.Alert, s)
		}
		if !fires[r.Alert] || !silent[r.Alert] {
			t.Errorf("%s: a test in which it fires: %t, in which it does not: %t", r.Alert, fires[r.Alert], silent[r.Alert])
		}
	}
	if n := len(file.Groups[0].Rules); n == 0 || sections != n {
		t.Errorf("%d alerts, and %d sections in the runbook", n, sections)
	}
}

// The dashboard's queries name metrics and labels that serve exports.
func TestDashboard(t *testing.T) {
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct{ List []struct{ Query string } }
	}
	if err := json.Unmarshal([]byte(readText(t, dashboardFile)), &dashboard); err != nil {
		t.Fatal(err)
	}
	exported, queries := exportedMetrics(t), 0
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			queries++
			for _, problem := range findUnknownNames(target.Expr, exported) {
				t.Errorf("panel %q: %s", p.Title, problem)
			}
		}
	}
	for _, v := range dashboard.Templating.List {
		if values := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`).FindStringSubmatch(v.Query); values != nil {
			for _, problem := range findUnknownNames("sum by ("+values[2]+") ("+values[1]+")", exported) {
				t.Errorf("variable %q: %s", v.Query, problem)
			}
		}
	}
	if queries == 0 {
		t.Error("the dashboard has no queries")
	}
}

func TestFindUnknownNames(t *testing.T) {
	exported := metricLabels{"agenthost_runs_total": {"app", "code"}, "agenthost_wait_seconds_bucket": {"app", "le"}}
	for expr, want := range map[string]string{
		`sum by (app) (rate(agenthost_runs_total{code!~"OK|made_up", job="a"}[5m])) > 1e3 unless on (instance) agenthost_runs_total offset 1d`: "",
		`histogram_quantile(0.95, sum by (app, le) (rate(agenthost_wait_seconds_bucket[$__rate_interval]))) > 60`:                              "",
		`agenthost_run_total > 0`:                                 "unknown metric agenthost_run_total",
		`agenthost_runs_total{status="500"}`:                      "agenthost_runs_total has no label status",
		`sum by (revision) (agenthost_runs_total)`:                "no metric in the query has the label revision",
		`agenthost_runs_total and on (revision) agenthost_apps`:   "no metric in the query has the label revision; unknown metric agenthost_apps",
		`sum(agenthost_wait_seconds_bucket{le="1"}) / wait_count`: "unknown metric wait_count",
	} {
		if got := strings.Join(findUnknownNames(expr, exported), "; "); got != want {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
	}
}

var (
	promString    = regexp.MustCompile(`"[^"]*"`)
	promRange     = regexp.MustCompile(`\[[^\]]*\]|\boffset \w+`)
	promGrouping  = regexp.MustCompile(`\b(?:by|on|ignoring|without|group_left|group_right) *\(([^)]*)\)`)
	promSelector  = regexp.MustCompile(`([a-zA-Z_:][\w:]*)(?:\{([^}]*)\})?( *\()?`)
	promLabel     = regexp.MustCompile(`(\w+) *(?:=~|!~|!=|=)`)
	promNumber    = regexp.MustCompile(`\b\d[\w.]*\b`)
	promOperators = []string{"and", "or", "unless", "sum", "max", "min", "avg", "count", "bool"}
	// targetLabels are the labels that Prometheus adds to each series.
	targetLabels = []string{"instance", "job"}
)

// findUnknownNames describes the metrics and labels in a PromQL query that are not exported.
func findUnknownNames(expr string, exported metricLabels) (problems []string) {
	expr = promNumber.ReplaceAllString(promRange.ReplaceAllString(promString.ReplaceAllString(expr, ""), ""), "")
	rest := promGrouping.ReplaceAllString(expr, "")
	labels := slices.Clone(targetLabels)
	var unknown []string
	for _, m := range promSelector.FindAllStringSubmatch(rest, -1) {
		name, isCall := m[1], m[3] != ""
		if isCall || slices.Contains(promOperators, name) {
			continue
		}
		own, ok := exported[name]
		if !ok {
			unknown = append(unknown, "unknown metric "+name)
			continue
		}
		labels = append(labels, own...)
		for _, l := range promLabel.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(own, l[1]) && !slices.Contains(targetLabels, l[1]) {
				unknown = append(unknown, name+" has no label "+l[1])
			}
		}
	}
	for _, m := range promGrouping.FindAllStringSubmatch(expr, -1) {
		for _, l := range strings.Split(m[1], ",") {
			if l = strings.TrimSpace(l); !slices.Contains(labels, l) {
				problems = append(problems, "no metric in the query has the label "+l)
			}
		}
	}
	return append(problems, unknown...)
}

// exportedMetrics returns the metrics that serve exports. A counter has no series before it counts,
// so the names are those of the table in docs/operating.md, which must be in the source, and those
// that a server returns, which must be in the table with their labels.
func exportedMetrics(t *testing.T) metricLabels {
	t.Helper()
	documented, exported, source := readMetricsTable(t), metricLabels{}, readMetricsSource(t)
	seen := map[string]bool{}
	for name, labels := range scrapeServer(t) {
		exported[name] = labels
		base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
		own, isHost := strings.CutPrefix(base, "agenthost_")
		if !isHost {
			continue
		}
		labels = slices.DeleteFunc(slices.Clone(labels), func(l string) bool { return l == "le" })
		if row, ok := documented[own]; !ok || !slices.Equal(row, slices.Sorted(slices.Values(labels))) {
			t.Errorf("docs/operating.md has %s with the labels %q, the server exports %q", own, row, labels)
		}
		seen[own] = true
	}
	for name, labels := range documented {
		if seen[name] {
			continue
		}
		if !strings.Contains(source, `"`+name+`"`) {
			t.Errorf("docs/operating.md: the server exports no metric %s", name)
		}
		exported["agenthost_"+name] = labels
	}
	return exported
}

// readMetricsTable returns the rows of the table of metrics in docs/operating.md.
func readMetricsTable(t *testing.T) metricLabels {
	t.Helper()
	_, page, _ := strings.Cut(readText(t, repo+"/docs/operating.md"), "| metric | labels | description |\n")
	table, _, _ := strings.Cut(page, "\n\n")
	quoted, all := regexp.MustCompile("`([^`]+)`"), metricLabels{}
	for _, row := range strings.Split(table, "\n")[1:] {
		cells := strings.Split(row, "|")
		var labels []string
		for _, m := range quoted.FindAllStringSubmatch(cells[2], -1) {
			labels = append(labels, m[1])
		}
		slices.Sort(labels)
		for _, m := range quoted.FindAllStringSubmatch(cells[1], -1) {
			all[m[1]] = labels
		}
	}
	return all
}

// readMetricsSource returns the files that declare metrics.
func readMetricsSource(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, pattern := range []string{"/pkg/*/metrics.go", "/wing/*/metrics.go", "/wing/*/*/metrics.go"} {
		files, err := filepath.Glob(repo + pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			all.WriteString(readText(t, f))
		}
	}
	return all.String()
}

// scrapeServer serves an app, runs a turn, and returns the metrics of the server.
func scrapeServer(t *testing.T) metricLabels {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "hello")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"root_agent.yaml": "name: hello\nmodel: demo\ninstruction: Greet.\ntools: [{expr: {name: add, description: Adds., params: {a: number}, value: args.a + 1}}]\n",
		"app.yaml":        "models: {demo: {provider: scripted, script: s.yaml}}\n",
		"s.yaml":          "- {when: responses.add == nil, calls: [{name: add, args: {a: 1}}]}\n- {text: Good morning}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	log, exitCode := new(bytes.Buffer), make(chan int)
	out, in := io.Pipe()
	go func() {
		exitCode <- run(ctx, []string{"serve", dir, "--addr", "127.0.0.1:0", "--session-db", "memory:", "--artifacts", "memory:", "--auto-create-session"},
			command.Env{In: strings.NewReader(""), Out: in, Err: log})
		in.Close()
	}()
	greeting := bufio.NewReader(out)
	line, err := greeting.ReadString('\n')
	if err != nil {
		t.Fatal(err, log)
	}
	go func() { _, _ = io.Copy(io.Discard, greeting) }()
	base := strings.TrimSpace(strings.TrimPrefix(line, "agenthost serves at "))
	sendPlain(t, http.MethodPost, base+"/run", runBody("hello", "ana"))
	metrics := sendPlain(t, http.MethodGet, base+"/metrics", "")
	cancel()
	if code := <-exitCode; code != command.ExitOK {
		t.Errorf("serve: exit status %d\n%s", code, log)
	}
	series, all := regexp.MustCompile(`(?m)^([a-z]\w*)(?:\{(.*)\})? \S+$`), metricLabels{}
	for _, m := range series.FindAllStringSubmatch(metrics, -1) {
		var labels []string
		for _, l := range promLabel.FindAllStringSubmatch(promString.ReplaceAllString(m[2], ""), -1) {
			labels = append(labels, l[1])
		}
		all[m[1]] = labels
	}
	if len(all) == 0 {
		t.Fatalf("GET /metrics = %s", metrics)
	}
	return all
}
