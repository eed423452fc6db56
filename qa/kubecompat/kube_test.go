// Package kubecompat decodes the manifests in deploy/kubernetes into Kubernetes' own types. It is a
// separate module, because those types depend on about fifty modules.
package kubecompat

import (
	"os"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const manifests = "../../deploy/kubernetes"

// resourceTypes returns the deployed resources' types.
func resourceTypes() map[string]any {
	return map[string]any{
		"Deployment": &appsv1.Deployment{}, "Service": &corev1.Service{}, "ConfigMap": &corev1.ConfigMap{}, "Secret": &corev1.Secret{},
		"PodDisruptionBudget": &policyv1.PodDisruptionBudget{}, "NetworkPolicy": &networkingv1.NetworkPolicy{},
	}
}

// The kustomize output and the example Secret have only Kubernetes API fields, with valid types.
func TestManifestsDecode(t *testing.T) {
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), manifests)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range resources.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		decodeStrict(t, r.GetKind(), text)
		names = append(names, r.GetKind())
	}
	slices.Sort(names)
	want := []string{"ConfigMap", "ConfigMap", "Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service"}
	if !slices.Equal(names, want) {
		t.Errorf("kustomize generates %q, want %q", names, want)
	}
	secret, err := os.ReadFile(manifests + "/secret.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	decodeStrict(t, "Secret", secret)
}

// The Cloud Run service's container, volumes and probes have only Kubernetes API fields, which
// Cloud Run uses; the other fields are from Knative Serving v1.
func TestCloudRunDecodes(t *testing.T) {
	text, err := os.ReadFile("../../deploy/cloud-run/service.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var service struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        metav1.ObjectMeta `json:"metadata"`
		Spec            struct {
			Template struct {
				Metadata metav1.ObjectMeta `json:"metadata"`
				Spec     struct {
					ContainerConcurrency int64 `json:"containerConcurrency"`
					TimeoutSeconds       int64 `json:"timeoutSeconds"`
					corev1.PodSpec       `json:",inline"`
				} `json:"spec"`
			} `json:"template"`
		} `json:"spec"`
	}
	if err := yaml.UnmarshalStrict(text, &service); err != nil {
		t.Fatal(err)
	}
	if service.APIVersion != "serving.knative.dev/v1" || service.Kind != "Service" || len(service.Spec.Template.Spec.Containers) != 1 {
		t.Errorf("got %s %s with %d containers", service.APIVersion, service.Kind, len(service.Spec.Template.Spec.Containers))
	}
}

// Volumes refer to the generated ConfigMaps' names.
func TestPodsMountGeneratedConfigMaps(t *testing.T) {
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), manifests)
	if err != nil {
		t.Fatal(err)
	}
	maps := map[string]bool{}
	var deployment appsv1.Deployment
	for _, r := range resources.Resources() {
		if r.GetKind() == "ConfigMap" {
			maps[r.GetName()] = true
		}
		if text, err := r.AsYAML(); r.GetKind() == "Deployment" && (err != nil || yaml.UnmarshalStrict(text, &deployment) != nil) {
			t.Fatal("the Deployment does not decode")
		}
	}
	for _, v := range deployment.Spec.Template.Spec.Volumes {
		if v.ConfigMap != nil && !maps[v.ConfigMap.Name] {
			t.Errorf("volume %s refers to the unknown ConfigMap %s", v.Name, v.ConfigMap.Name)
		}
	}
}

func decodeStrict(t *testing.T, kind string, text []byte) {
	t.Helper()
	into := resourceTypes()[kind]
	if into == nil {
		t.Fatalf("unexpected kind %s", kind)
	}
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		t.Errorf("%s: %v\n%s", kind, err, text)
	}
}
