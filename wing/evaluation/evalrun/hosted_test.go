package evalrun_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalrun"
)

// A fakeService is Vertex AI's evaluation service: it rejects requests outside its API, and
// answers each metric with a score.
type fakeService struct {
	mu     sync.Mutex
	bodies map[string]string
}

func (f *fakeService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var req struct {
		Metrics []struct {
			Predefined struct {
				Name string `json:"metric_spec_name"`
			} `json:"predefined_metric_spec"`
		} `json:"metrics"`
		Instance json.RawMessage `json:"instance"`
	}
	dec := json.NewDecoder(strings.NewReader(string(body)))
	dec.DisallowUnknownFields()
	if err == nil {
		err = dec.Decode(&req)
	}
	if err != nil || r.URL.Path != "/v1beta1/projects/p-1/locations/us-central1:evaluateInstances" || len(req.Metrics) != 1 {
		http.Error(w, `{"error": {"code": 400, "message": "invalid request", "status": "INVALID_ARGUMENT"}}`, http.StatusBadRequest)
		return
	}
	name := req.Metrics[0].Predefined.Name
	f.mu.Lock()
	f.bodies[name] = string(req.Instance)
	f.mu.Unlock()
	answers := map[string]string{
		eval.Safety:            `{"score": 0.75, "explanation": "mostly harmless"}`,
		eval.TaskSuccess:       `{"score": 1}`,
		eval.TrajectoryQuality: `{"score": "NaN"}`,
		eval.ToolUseQuality:    `{"error": {"code": 3, "message": "no tools"}}`,
	}
	fmt.Fprintf(w, `{"metricResults": [%s]}`, answers[name])
}

// TestHostedMetrics: with a project, a region and an address, the Vertex AI service scores
// the metrics that ADK leaves to it, and the result names it. A judge from the config or
// --judge scores instead, and so does the local judge without the service.
func TestHostedMetrics(t *testing.T) {
	fake := &fakeService{bodies: map[string]string{}}
	server := httptest.NewServer(fake)
	defer server.Close()
	dir := testenv.Files(t, "shop", map[string][]byte{
		"root_agent.yaml": []byte(rootAgent), "app.yaml": []byte(demoApp),
		"demo.script.yaml": []byte("- when: agent == \"judge\"\n  text: '{\"score\": 0.5}'\n- text: Hello.\n"),
		"a.eval.yaml": []byte(`metrics: {safety: 0.7, multi_turn_task_success_v1: 1, multi_turn_trajectory_quality_v1: 1, multi_turn_tool_use_quality_v1: 1}
cases: [{name: a, user: hi, then: [{user: again}]}]
`),
	})
	l := loader.New(testenv.Kinds(), &loader.Options{WrapModel: evalrun.WrapModel, Env: func(name string) (string, bool) {
		value, ok := map[string]string{"GOOGLE_CLOUD_PROJECT": "p-1", "GOOGLE_CLOUD_LOCATION": "us-central1", "GOOGLE_VERTEX_BASE_URL": server.URL}[name]
		return value, ok
	}})
	service, release, err := l.OpenEvaluator(t.Context(), dir)
	if service == nil || err != nil {
		t.Fatalf("OpenEvaluator = %v, %v", service, err)
	}
	defer release()
	app, ds := l.Load(t.Context(), dir)
	if app == nil {
		t.Fatal(ds)
	}
	defer app.Close()
	models, releaseModels, ds := l.OpenModels(t.Context(), dir, []string{"demo"})
	if models == nil {
		t.Fatal(ds)
	}
	defer releaseModels()
	run := func(o *evalrun.PlanOptions, service eval.Service) string {
		jobs, err := evalrun.Plan(dir, nil, o)
		if err != nil {
			t.Fatal(err)
		}
		r := &evalrun.Runner{App: app, Models: models, Service: service, Runs: 1, Parallel: 1, Timeout: time.Minute}
		log := &evalrun.MemoryLog{}
		if err := r.Run(t.Context(), jobs[0], log); err != nil {
			t.Fatal(err)
		}
		var lines []string
		result := log.Outcomes(jobs[0])[0]
		for _, m := range result.Metrics {
			line := m.Metric + " " + m.Status.String()
			if m.Score != nil {
				line += fmt.Sprintf(" %g", *m.Score)
			}
			for _, n := range result.Runs[0].Notes {
				if n.Metric == m.Metric && n.Judge != "" {
					line += " by " + n.Judge
				}
				if n.Metric == m.Metric && m.Status == eval.NotEvaluated && n.Judge == "" {
					line += ": " + n.Reason
				}
			}
			lines = append(lines, line)
		}
		return strings.Join(lines, "\n")
	}
	want := `safety_v1 PASSED 0.75 by vertex_ai/evaluation
multi_turn_task_success_v1 PASSED 1 by vertex_ai/evaluation
multi_turn_trajectory_quality_v1 NOT_EVALUATED by vertex_ai/evaluation: the answer of the evaluation service has no score from 0 to 1
multi_turn_tool_use_quality_v1 NOT_EVALUATED by vertex_ai/evaluation: Vertex AI evaluation service: 3: no tools`
	if diff := cmp.Diff(want, run(&evalrun.PlanOptions{Vertex: true}, service)); diff != "" {
		t.Errorf("with the service (-want +got):\n%s", diff)
	}
	if got, want := fake.bodies[eval.Safety], `"response":{"contents":{"contents":[{"parts":[{"text":"Hello."}],"role":"model"}]}}`; !strings.Contains(got, want) {
		t.Errorf("the instance of safety_v1 is %s, want %s", got, want)
	}
	for _, want := range []string{`"turnIndex":1`, `"author":"user","content":{"parts":[{"text":"again"}]`, `"author":"agent","content":{"parts":[{"text":"Hello."}]`, `"agents":{"clerk":{"agentId":"clerk","instruction":"`} {
		if got := fake.bodies[eval.TaskSuccess]; !strings.Contains(got, want) {
			t.Errorf("the instance of a conversation is %s, want %s", got, want)
		}
	}
	for name, o := range map[string]*evalrun.PlanOptions{"--judge": {Vertex: true, Judge: "demo"}, "no service": {Judge: "demo"}} {
		if got := run(o, service); !strings.HasPrefix(got, "safety_v1 FAILED 0.5 by demo\n") {
			t.Errorf("%s: %s, want the judge demo", name, got)
		}
	}
	if got := run(&evalrun.PlanOptions{Vertex: true}, nil); !strings.Contains(got, "the Vertex AI evaluation service is not available: set GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION") {
		t.Errorf("a config that requires the service without it: %s", got)
	}
}
