package main

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// labels are a Kubernetes object's labels.
type labels map[string]string

func (l labels) isSubsetOf(others labels) bool {
	for k, v := range l {
		if others[k] != v {
			return false
		}
	}
	return len(l) > 0
}

// manifest has the fields that the tests read from a file in deploy/kubernetes.
type manifest struct {
	Metadata struct{ Name string }
	Spec     struct {
		Replicas     int
		MinAvailable int `yaml:"minAvailable"`
		Template     struct {
			Metadata struct{ Labels, Annotations labels }
			Spec     pod
		}
		Selector    any
		PodSelector struct {
			MatchLabels labels `yaml:"matchLabels"`
		} `yaml:"podSelector"`
		Ports   []port
		Ingress []struct{ Ports []port }
	}
	StringData map[string]string `yaml:"stringData"`
}

type port struct {
	Name       string
	Port       any
	TargetPort string `yaml:"targetPort"`
}

// pod is the Deployment's pod.
type pod struct {
	Grace        int   `yaml:"terminationGracePeriodSeconds"`
	ServiceLinks *bool `yaml:"enableServiceLinks"`
	Security     struct {
		User  int `yaml:"runAsUser"`
		Group int `yaml:"runAsGroup"`
	} `yaml:"securityContext"`
	Containers []container
	Volumes    []struct {
		Name      string
		ConfigMap *struct{ Name string } `yaml:"configMap"`
	}
}

func (p *pod) container() *container { return &p.Containers[0] }

type container struct {
	Args    []string
	EnvFrom []struct {
		SecretRef struct{ Name string } `yaml:"secretRef"`
	} `yaml:"envFrom"`
	Env   []struct{ Name, Value string }
	Ports []struct {
		Name string
		Port int `yaml:"containerPort"`
	}
	Startup   probe `yaml:"startupProbe"`
	Liveness  probe `yaml:"livenessProbe"`
	Readiness probe `yaml:"readinessProbe"`
	Lifecycle struct {
		PreStop struct{ Sleep struct{ Seconds int } } `yaml:"preStop"`
	}
	Mounts []struct {
		Name, SubPath string
		Path          string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
	Resources struct{ Limits map[string]string }
}

type probe struct {
	HTTP struct{ Path, Port string } `yaml:"httpGet"`
}

func (c *container) variables() map[string]string {
	all := map[string]string{}
	for _, v := range c.Env {
		all[v.Name] = v.Value
	}
	return all
}

func readManifest(t *testing.T, file string) *manifest {
	t.Helper()
	m := &manifest{}
	decodeYAML(t, readText(t, kubeDir+"/"+file), m)
	return m
}

func readPod(t *testing.T) *pod {
	t.Helper()
	return &readManifest(t, "deployment.yaml").Spec.Template.Spec
}

func readSecret(t *testing.T) map[string]string {
	t.Helper()
	return readManifest(t, "secret.example.yaml").StringData
}

// Ports, labels and names that the parts of a deployment use to refer to each other match.
func TestDeployedNamesMatch(t *testing.T) {
	d := readManifest(t, "deployment.yaml")
	p, c := &d.Spec.Template.Spec, d.Spec.Template.Spec.container()
	_, listens, _ := strings.Cut(readImage(t).env["AGENTHOST_ADDR"], ":")
	if listens != strconv.Itoa(c.Ports[0].Port) || listens != d.Spec.Template.Metadata.Annotations["prometheus.io/port"] {
		t.Errorf("the host listens on %s, its container has port %d", listens, c.Ports[0].Port)
	}
	service, budget, network := readManifest(t, "service.yaml"), readManifest(t, "disruption.yaml"), readManifest(t, "network.yaml")
	for what, name := range map[string]any{
		"startupProbe": c.Startup.HTTP.Port, "livenessProbe": c.Liveness.HTTP.Port, "readinessProbe": c.Readiness.HTTP.Port,
		"service.yaml": service.Spec.Ports[0].TargetPort, "network.yaml": network.Spec.Ingress[0].Ports[0].Port,
	} {
		if name != c.Ports[0].Name {
			t.Errorf("%s uses port %v, want %s", what, name, c.Ports[0].Name)
		}
	}
	for what, selected := range map[string]labels{
		"deployment.yaml": selector(d), "service.yaml": selector(service), "disruption.yaml": selector(budget), "network.yaml": network.Spec.PodSelector.MatchLabels,
	} {
		if !selected.isSubsetOf(d.Spec.Template.Metadata.Labels) {
			t.Errorf("%s selects pods with %v, the pods have %v", what, selected, d.Spec.Template.Metadata.Labels)
		}
	}
	if budget.Spec.MinAvailable >= d.Spec.Replicas {
		t.Errorf("minAvailable is %d of %d replicas: no node could be drained", budget.Spec.MinAvailable, d.Spec.Replicas)
	}
	if c.EnvFrom[0].SecretRef.Name != readManifest(t, "secret.example.yaml").Metadata.Name {
		t.Errorf("the pods use the Secret %s", c.EnvFrom[0].SecretRef.Name)
	}
	if p.ServiceLinks == nil || *p.ServiceLinks {
		t.Error("enableServiceLinks adds variables with the prefix AGENTHOST_ to the pods")
	}
}

func selector(m *manifest) labels {
	found := labels{}
	selected, _ := m.Spec.Selector.(map[string]any)
	if inner, ok := selected["matchLabels"].(map[string]any); ok {
		selected = inner
	}
	for k, v := range selected {
		found[k], _ = v.(string)
	}
	return found
}

// kustomization lists the files of each ConfigMap.
type kustomization struct {
	Maps []struct {
		Name    string
		Files   []string
		Options struct {
			NoHash bool `yaml:"disableNameSuffixHash"`
		}
	} `yaml:"configMapGenerator"`
}

// mountedFiles returns the files in the pod's ConfigMaps by mount folder.
func mountedFiles(t *testing.T) map[string][]string {
	t.Helper()
	var k kustomization
	decodeYAML(t, readText(t, kubeDir+"/kustomization.yaml"), &k)
	p, files := readPod(t), map[string][]string{}
	for _, m := range p.container().Mounts {
		for _, v := range p.Volumes {
			if v.Name != m.Name || v.ConfigMap == nil {
				continue
			}
			for _, configMap := range k.Maps {
				if configMap.Name == v.ConfigMap.Name {
					files[m.Path] = configMap.Files
				}
			}
		}
	}
	return files
}

// A change to an app's ConfigMap updates running pods; a change to the host's settings creates new
// pods.
func TestDeployedConfigMaps(t *testing.T) {
	var k kustomization
	decodeYAML(t, readText(t, kubeDir+"/kustomization.yaml"), &k)
	for _, m := range k.Maps {
		if app := strings.HasPrefix(m.Files[0], "apps/"); app != m.Options.NoHash {
			t.Errorf("ConfigMap %s, of an app %v, has a fixed name %v", m.Name, app, m.Options.NoHash)
		}
	}
	for _, m := range readPod(t).container().Mounts {
		if m.SubPath != "" {
			t.Errorf("%s is mounted by subPath, so updates do not reach it", m.Path)
		}
	}
	if got, want := slices.Sorted(maps.Keys(mountedFiles(t))), []string{"/apps/desk", "/etc/agenthost"}; !slices.Equal(got, want) {
		t.Errorf("ConfigMaps are mounted at %q, want %q", got, want)
	}
}
