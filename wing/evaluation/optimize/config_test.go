package optimize_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/optimize"
)

// TestSamplerConfigWithoutValidation: validation uses the training cases unless the config names others; cases
// in the training set do not select cases in another set.
func TestSamplerConfigWithoutValidation(t *testing.T) {
	for _, c := range []struct {
		name, fields string
		want         *eval.Selection
		same         bool
	}{
		{"none", `"train_eval_set": "a"`, &eval.Selection{Set: "a"}, true},
		{"training cases", `"trainEvalSet": "a", "trainEvalCaseIds": ["x"]`, &eval.Selection{Set: "a", Cases: []string{"x"}}, true},
		{"set", `"train_eval_set": "a", "train_eval_case_ids": ["x"], "validation_eval_set": "b"`, &eval.Selection{Set: "b"}, false},
		{"cases", `"train_eval_set": "a", "train_eval_case_ids": ["x"], "validation_eval_case_ids": ["y"]`, &eval.Selection{Set: "a", Cases: []string{"y"}}, false},
		{"both", `"train_eval_set": "a", "validation_eval_set": "b", "validation_eval_case_ids": ["y"]`, &eval.Selection{Set: "b", Cases: []string{"y"}}, false},
	} {
		config, err := readSampler(t, `{"app_name": "shop", "eval_config": {}, `+c.fields+`}`)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.want, config.Validation()); diff != "" || config.IsOneSelection() != c.same {
			t.Errorf("%s: same %t, (-want +got):\n%s", c.name, config.IsOneSelection(), diff)
		}
	}
	for fields, want := range map[string]string{
		`"app_name": "shop", "train_eval_set": "a"`:                                                    "eval_config is required",
		`"eval_config": {}, "train_eval_set": "a"`:                                                     "app_name is required",
		`"eval_config": {}, "app_name": "shop"`:                                                        "train_eval_set is required",
		`"eval_config": {}, "app_name": "shop", "train_eval_set": "a", "train_eval_case_ids": []`:      "train_eval_case_ids has no case",
		`"eval_config": {}, "app_name": "shop", "train_eval_set": "a", "validation_eval_case_ids": []`: "validation_eval_case_ids has no case",
		`"eval_config": {}, "app_name": "shop", "train_eval_set": "a", "validation_set": "b"`:          "validation_set",
	} {
		if _, err := readSampler(t, "{"+fields+"}"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", fields, err, want)
		}
	}
	if _, err := readSampler(t, strings.Repeat(" ", 2<<20)); err == nil || !strings.Contains(err.Error(), "exceeds the limit of 1 MiB") {
		t.Errorf("a large file: %v", err)
	}
}

func readSampler(t *testing.T, text string) (*optimize.SamplerConfig, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sampler.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return optimize.ReadSamplerConfig(file, "shop")
}
