package kubecompat

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const chartFolder = "../../deploy/helm/agenthost"

// desk is an app like that in deploy/kubernetes.
const desk = "apps: {desk: {root_agent.yaml: \"name: desk\\n\", prompts/tone.md: \"Be short.\\n\"}}\n"

// renderChart returns the release agenthost's objects, by kind and name.
func renderChart(t *testing.T, text string) (map[string][]byte, error) {
	t.Helper()
	c := loadChart(t)
	var values map[string]any
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	release := chartutil.ReleaseOptions{Name: "agenthost", Namespace: "agents", IsInstall: true}
	all, err := chartutil.ToRenderValues(c, values, release, chartutil.DefaultCapabilities.Copy())
	if err != nil {
		return nil, err
	}
	rendered, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}
	objects := map[string][]byte{}
	for _, file := range slices.Sorted(maps.Keys(rendered)) {
		if strings.HasSuffix(file, "NOTES.txt") {
			objects["NOTES"] = []byte(rendered[file])
			continue
		}
		for _, part := range strings.Split(rendered[file], "\n---\n") {
			var head struct {
				Kind     string `json:"kind"`
				Metadata struct {
					Name string `json:"name"`
				} `json:"metadata"`
			}
			if err := yaml.Unmarshal([]byte(part), &head); err != nil {
				t.Fatalf("%s: %v in\n%s", file, err, part)
			}
			if head.Kind != "" {
				objects[head.Kind+"/"+head.Metadata.Name] = []byte(part)
			}
		}
	}
	return objects, nil
}

func loadChart(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.Load(chartFolder)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// chartTypes are the types of the chart's objects. A ServiceMonitor is the Prometheus operator's.
func chartTypes() map[string]any {
	types := resourceTypes()
	types["Ingress"], types["ServiceAccount"], types["HorizontalPodAutoscaler"] = &networkingv1.Ingress{}, &corev1.ServiceAccount{}, &autoscalingv2.HorizontalPodAutoscaler{}
	return types
}

// Helm's own linter has nothing to report, with the values that a release needs.
func TestChartLint(t *testing.T) {
	var values map[string]any
	if err := yaml.Unmarshal([]byte(desk), &values); err != nil {
		t.Fatal(err)
	}
	for _, m := range lint.AllWithKubeVersion(chartFolder, values, "agents", nil).Messages {
		if !strings.Contains(m.Err.Error(), "icon is recommended") {
			t.Errorf("%s", m)
		}
	}
}

// All values give objects that have only Kubernetes API fields.
func TestChartDecodes(t *testing.T) {
	for _, tt := range []struct {
		name, values string
		want         []string
	}{
		{"default", desk, []string{"ConfigMap/agenthost-app-desk", "ConfigMap/agenthost-host", "Deployment/agenthost", "NetworkPolicy/agenthost", "PodDisruptionBudget/agenthost", "Service/agenthost"}},
		{"everything", desk + `
secret: {AGENTHOST_SESSION_DB: postgres://a:b@db/agents, OPS_TOKEN: ops-token-of-tests}
image: {repository: r.example/agenthost, tag: v1}
imagePullSecrets: [{name: pull}]
appVolumes: {support: {persistentVolumeClaim: {claimName: support}}}
serviceAccount: {create: true, annotations: {a: b}}
podAnnotations: {c: d}
podLabels: {e: f}
nodeSelector: {g: h}
tolerations: [{key: k, operator: Exists}]
affinity: {nodeAffinity: {}}
service: {type: LoadBalancer, port: 8080, annotations: {i: j}}
ingress: {enabled: true, className: nginx, host: agents.example.com, tlsSecret: cert, annotations: {k: l}}
autoscaling: {enabled: true, min: 3, max: 9, cpuPercent: 50}
networkPolicy: {ingress: [{from: [{namespaceSelector: {}}]}], egress: [{to: [{ipBlock: {cidr: 10.1.0.0/16}}]}]}
metrics: {serviceMonitor: true}
`, []string{
			"ConfigMap/agenthost-app-desk", "ConfigMap/agenthost-host", "Deployment/agenthost", "HorizontalPodAutoscaler/agenthost", "Ingress/agenthost", "NetworkPolicy/agenthost",
			"PodDisruptionBudget/agenthost", "Secret/agenthost", "Service/agenthost", "ServiceAccount/agenthost", "ServiceMonitor/agenthost",
		}},
		{"one replica", desk + "replicas: 1\nminAvailable: 0\nnetworkPolicy: {enabled: false}\nmetrics: {annotations: false}\n", []string{"ConfigMap/agenthost-app-desk", "ConfigMap/agenthost-host", "Deployment/agenthost", "Service/agenthost"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			objects, err := renderChart(t, tt.values)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(objects["NOTES"]), "agenthost serves desk") {
				t.Errorf("notes: %s", objects["NOTES"])
			}
			delete(objects, "NOTES")
			if got := slices.Sorted(maps.Keys(objects)); !slices.Equal(got, tt.want) {
				t.Errorf("objects %q, want %q", got, tt.want)
			}
			for name, text := range objects {
				kind, _, _ := strings.Cut(name, "/")
				into := chartTypes()[kind]
				if into == nil && kind == "ServiceMonitor" {
					continue
				}
				if err := yaml.UnmarshalStrict(text, into); err != nil {
					t.Errorf("%s: %v\n%s", name, err, text)
				}
			}
		})
	}
}

// With its default values the chart deploys what deploy/kubernetes does.
func TestChartMatchesManifests(t *testing.T) {
	objects, err := renderChart(t, desk)
	if err != nil {
		t.Fatal(err)
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), manifests)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range resources.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		switch r.GetKind() {
		case "Deployment":
			want, got := &appsv1.Deployment{}, &appsv1.Deployment{}
			decodeBoth(t, text, objects["Deployment/agenthost"], want, got)
			for _, d := range []*appsv1.Deployment{want, got} {
				d.Spec.Selector, d.Spec.Template.ObjectMeta.Labels, d.Spec.Template.ObjectMeta.Annotations = nil, nil, nil
				pod := &d.Spec.Template.Spec
				pod.TopologySpreadConstraints[0].LabelSelector = nil
				pod.Containers[0].Image, pod.Containers[0].ImagePullPolicy, pod.Volumes = "", "", nil
			}
			expectEqual(t, "deployment", got.Spec, want.Spec)
		case "NetworkPolicy":
			want, got := &networkingv1.NetworkPolicy{}, &networkingv1.NetworkPolicy{}
			decodeBoth(t, text, objects["NetworkPolicy/agenthost"], want, got)
			want.Spec.PodSelector = got.Spec.PodSelector
			expectEqual(t, "network policy", got.Spec, want.Spec)
		case "PodDisruptionBudget":
			want, got := &policyv1.PodDisruptionBudget{}, &policyv1.PodDisruptionBudget{}
			decodeBoth(t, text, objects["PodDisruptionBudget/agenthost"], want, got)
			expectEqual(t, "disruption budget", got.Spec.MinAvailable, want.Spec.MinAvailable)
		}
	}
	var config corev1.ConfigMap
	if err := yaml.UnmarshalStrict(objects["ConfigMap/agenthost-host"], &config); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"host.yaml", "policy.yaml"} {
		text, err := os.ReadFile(filepath.Join(manifests, file))
		if err != nil {
			t.Fatal(err)
		}
		var want, got map[string]any
		decodeBoth(t, text, []byte(config.Data[file]), &want, &got)
		expectEqual(t, file, got, want)
	}
	var app corev1.ConfigMap
	if err := yaml.UnmarshalStrict(objects["ConfigMap/agenthost-app-desk"], &app); err != nil {
		t.Fatal(err)
	}
	if app.Data["prompts...tone.md"] != "Be short.\n" {
		t.Errorf("the app's files are %q", app.Data)
	}
}

func decodeBoth(t *testing.T, wantText, gotText []byte, want, got any) {
	t.Helper()
	for _, d := range []struct {
		text []byte
		into any
	}{{wantText, want}, {gotText, got}} {
		if err := yaml.UnmarshalStrict(d.text, d.into); err != nil {
			t.Fatalf("%v in\n%s", err, d.text)
		}
	}
}

func expectEqual(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		gotText, _ := yaml.Marshal(got)
		wantText, _ := yaml.Marshal(want)
		t.Errorf("%s is\n%s\nwant\n%s", what, gotText, wantText)
	}
}

// Values with which the pods cannot run, or lose what they store, are errors that name the way out.
func TestChartBadValues(t *testing.T) {
	for _, tt := range []struct{ name, values, want string }{
		{"no app", "", "apps and appVolumes are empty: set apps.NAME to the app's files"},
		{"no root agent", "apps: {desk: {agent.yaml: x}}", "apps.desk has neither app.yaml nor root_agent.yaml"},
		{"twice", desk + "appVolumes: {desk: {emptyDir: {}}}", "app desk is in apps and in appVolumes: remove one"},
		{"an app's name", "apps: {Desk_1: {app.yaml: x}}", "Desk_1"},
		{"outside of the folder", "apps: {desk: {app.yaml: x, ../x: y}}", "../x"},
		{"no secret", desk + "existingSecret: ''", "existingSecret is empty: name the Secret"},
		{"a file as the database", desk + "secret: {AGENTHOST_SESSION_DB: 'sqlite:///tmp/x.db'}", "must be the URL of a database on a server"},
		{"a secret without a database", desk + "secret: {OPS_TOKEN: x}", "must be the URL of a database on a server"},
		{"a budget that blocks", desk + "replicas: 2", "minAvailable is 2 with 2 replicas: no node could be drained; set it to at most 1"},
		{"replicas", desk + "replicas: many", "replicas"},
		{"autoscaling", desk + "autoscaling: {enabled: true, min: 9, max: 3}", "autoscaling.min is 9, above autoscaling.max, 3"},
		{"ingress", desk + "ingress: {enabled: true}", "ingress.host is empty"},
		{"a typing error", desk + "replica: 3", "replica"},
		{"drain", desk + "config: {drain: 60s}", "config"},
		{"drain time", desk + "drainSeconds: 60s", "drainSeconds"},
	} {
		if _, err := renderChart(t, tt.values); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
