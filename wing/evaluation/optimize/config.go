package optimize

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agenthost/pkg/spec"
	"agenthost/wing/evaluation/eval"
)

// A SamplerConfig is ADK's sampler config: a search's cases and metrics.
type SamplerConfig struct {
	// EvalConfig is a test_config.json.
	EvalConfig json.RawMessage `json:"evalConfig"`
	// App is the app folder's name.
	App               string   `json:"appName"`
	TrainSet          string   `json:"trainEvalSet"`
	TrainCases        []string `json:"trainEvalCaseIds,omitempty"`
	ValidationSet     string   `json:"validationEvalSet,omitempty"`
	ValidationCaseIDs []string `json:"validationEvalCaseIds,omitempty"`
}

// An OptimizerConfig configures ADK's GEPA instruction optimizer.
type OptimizerConfig struct {
	Model string `json:"optimizerModel,omitempty"`
	// ModelConfig is a GenerateContentConfig as it is written.
	ModelConfig json.RawMessage `json:"modelConfiguration,omitempty"`
	// MaxCaseRuns limits the case runs, BatchSize is the number of training cases for a
	// proposal.
	MaxCaseRuns *int `json:"maxMetricCalls,omitempty"`
	BatchSize   *int `json:"reflectionMinibatchSize,omitempty"`
	// RunDir is a folder for the result.
	RunDir string `json:"runDir,omitempty"`
}

// ADK's defaults.
const (
	DefaultMaxCaseRuns = 100
	DefaultBatchSize   = 3
)

// maxConfigBytes limits a config file.
const maxConfigBytes = 1 << 20

// ReadSamplerConfig reads a sampler config for an app. A problem in the file is a
// [spec.Diagnostics].
func ReadSamplerConfig(file, app string) (*SamplerConfig, error) {
	c := &SamplerConfig{}
	src, err := readConfig(file, c)
	if err != nil {
		return nil, err
	}
	switch {
	case len(c.EvalConfig) == 0:
		return nil, problemAt(file, src, "eval_config is required")
	case c.App == "":
		return nil, problemAt(file, src, "app_name is required")
	case c.App != app:
		return nil, problemAt(file, src, fmt.Sprintf("app_name must be %q, the folder of the app, got %q", app, c.App), "app_name")
	case c.TrainSet == "":
		return nil, problemAt(file, src, "train_eval_set is required")
	case c.TrainCases != nil && len(c.TrainCases) == 0:
		return nil, problemAt(file, src, "train_eval_case_ids has no case", "train_eval_case_ids")
	case c.ValidationCaseIDs != nil && len(c.ValidationCaseIDs) == 0:
		return nil, problemAt(file, src, "validation_eval_case_ids has no case", "validation_eval_case_ids")
	}
	at := eval.NewLocator(file, src).Locate("eval_config")
	c.EvalConfig = append([]byte(strings.Repeat("\n", at.Line-1)), c.EvalConfig...)
	return c, nil
}

// Train selects the training cases.
func (c *SamplerConfig) Train() *eval.Selection {
	return &eval.Selection{Set: c.TrainSet, Cases: c.TrainCases}
}

// Validation selects the validation cases: by default, the training cases.
func (c *SamplerConfig) Validation() *eval.Selection {
	s := c.Train()
	if c.ValidationSet != "" && c.ValidationSet != c.TrainSet {
		s = &eval.Selection{Set: c.ValidationSet}
	}
	if c.ValidationCaseIDs != nil {
		s.Cases = c.ValidationCaseIDs
	}
	return s
}

// IsOneSelection reports whether the training cases are the validation cases.
func (c *SamplerConfig) IsOneSelection() bool {
	train, validation := c.Train(), c.Validation()
	return train.Set == validation.Set && slices.Equal(train.Cases, validation.Cases)
}

// ReadOptimizerConfig reads the optimizer's config. A problem in the file is a
// [spec.Diagnostics].
func ReadOptimizerConfig(file string) (*OptimizerConfig, error) {
	c := &OptimizerConfig{}
	src, err := readConfig(file, c)
	switch {
	case err != nil:
		return nil, err
	case c.MaxCaseRuns != nil && *c.MaxCaseRuns < 1:
		return nil, problemAt(file, src, "max_metric_calls must be at least 1", "max_metric_calls")
	case c.BatchSize != nil && *c.BatchSize < 1:
		return nil, problemAt(file, src, "reflection_minibatch_size must be at least 1", "reflection_minibatch_size")
	}
	return c, nil
}

func readConfig(file string, dst any) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, maxConfigBytes+1))
	if err != nil {
		return nil, err
	}
	if len(src) > maxConfigBytes {
		return nil, errors.New(file + " exceeds the limit of 1 MiB")
	}
	return src, eval.Decode(filepath.ToSlash(file), src, dst)
}

func problemAt(file string, src []byte, message string, path ...any) error {
	return spec.Diagnostics{{Pos: eval.NewLocator(filepath.ToSlash(file), src).Locate(path...), Rule: "eval-file", Message: message}}.Err()
}

// WriteResult writes a search's result to optimization.json in a folder, which it creates.
func WriteResult(dir string, result *Result) error {
	text, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("creating run_dir: %w", err)
	}
	return os.WriteFile(filepath.Join(dir, "optimization.json"), append(text, '\n'), 0o644)
}
