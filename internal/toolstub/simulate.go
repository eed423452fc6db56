package toolstub

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"agenthost/pkg/session"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

const (
	// maxAnswerBytes limits a model answer.
	maxAnswerBytes = 64 << 10
	// maxStateBytes limits the stored responses, which each prompt contains.
	maxStateBytes = 256 << 10
	// maxPromptBytes limits a prompt.
	maxPromptBytes = 1 << 20
	// maxDepth limits the search for an ID in a response.
	maxDepth = 32
)

// A simulatedService answers calls by a model, one at a time, so that a call has the
// resources that earlier ones created (adk-python
// tools/environment_simulation/strategies/tool_spec_mock_strategy.py).
type simulatedService struct {
	config *SimulationConfig
	ask    func(ctx context.Context, prompt string) (string, error)
	// lock guards the fields below; a context can cancel waiting for it.
	lock  chan struct{}
	calls int
	// stateful are the stateful parameters; nil before the first call.
	stateful []*StatefulParameter
	analyzed bool
	// resources are responses from creating tools, by parameter and value.
	resources      map[string]map[string]json.RawMessage
	resourcesBytes int
}

func newSimulatedService(c *SimulationConfig, ask func(ctx context.Context, prompt string) (string, error)) *simulatedService {
	s := &simulatedService{config: c, ask: ask, lock: make(chan struct{}, 1), resources: map[string]map[string]json.RawMessage{}}
	if s.config == nil {
		s.config = &SimulationConfig{}
	}
	s.stateful, s.analyzed = s.config.Stateful, s.config.Stateful != nil
	return s
}

// answerCall returns the model's response. A model failure ends the run.
func (s *simulatedService) answerCall(ctx context.Context, x *tool.Execution) (*tool.Result, error) {
	select {
	case s.lock <- struct{}{}:
		defer func() { <-s.lock }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if !s.analyzed {
		if err := s.findStateful(ctx, x); err != nil {
			return nil, endRun(x.Call.Name, err)
		}
	}
	answer, err := s.askModel(ctx, s.buildCallPrompt(x))
	if err != nil {
		return nil, endRun(x.Call.Name, err)
	}
	response, err := parseResponse(answer)
	if err != nil {
		return &tool.Result{Response: map[string]any{
			"status": "error", "error_message": "the simulation model returned no JSON object: " + err.Error(), "llm_output": limitText(answer),
		}}, nil
	}
	if err := s.storeResources(x, response); err != nil {
		return nil, endRun(x.Call.Name, err)
	}
	return &tool.Result{Response: response}, nil
}

// findStateful asks the model for the stateful parameters in the agent's tools. Without a
// readable answer there are none.
func (s *simulatedService) findStateful(ctx context.Context, x *tool.Execution) error {
	answer, err := s.askModel(ctx, buildAnalysisPrompt(x.Tools))
	if err != nil {
		return err
	}
	s.analyzed = true
	var found struct {
		Parameters []*StatefulParameter `json:"stateful_parameters"`
	}
	if err := json.Unmarshal([]byte(trimFence(answer)), &found); err == nil {
		for _, p := range found.Parameters {
			if p != nil && p.Name != "" {
				s.stateful = append(s.stateful, p)
			}
		}
	}
	return nil
}

// askModel sends a prompt within the limits.
func (s *simulatedService) askModel(ctx context.Context, prompt string) (string, error) {
	limit := defaultModelCalls
	if s.config.MaxCalls != nil {
		limit = *s.config.MaxCalls
	}
	if s.calls++; s.calls > limit {
		return "", fmt.Errorf("the simulation exceeds the limit of %d model calls (max_model_calls)", limit)
	}
	if len(prompt) > maxPromptBytes {
		return "", errors.New("the prompt exceeds the limit of 1 MiB")
	}
	if s.ask == nil {
		return "", errors.New("the simulation has no model")
	}
	return s.ask(ctx, prompt)
}

// parseResponse decodes an answer, which may be fenced as code. A value that is not an object
// becomes the value of result.
func parseResponse(answer string) (map[string]any, error) {
	if len(answer) > maxAnswerBytes {
		return nil, errors.New("it exceeds the limit of 64 KiB")
	}
	v, err := session.DecodeValue([]byte(trimFence(answer)))
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case map[string]any:
		return v, nil
	case []any:
		return map[string]any{"result": v}, nil
	default:
		return nil, fmt.Errorf("got %s", limitText(template.String(v)))
	}
}

func trimFence(text string) string {
	text = strings.TrimSpace(text)
	if first, rest, ok := strings.Cut(text, "\n"); ok && strings.HasPrefix(first, "```") {
		text = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "```"))
	}
	return text
}

// maxShownBytes limits a model's answer in a response.
const maxShownBytes = 2000

func limitText(text string) string {
	if len(text) > maxShownBytes {
		return strings.ToValidUTF8(text[:maxShownBytes], "") + "…"
	}
	return text
}

// storeResources stores a creating tool's response under the value for each of its
// parameters, from the response or else from the arguments.
func (s *simulatedService) storeResources(x *tool.Execution, response map[string]any) error {
	for _, p := range s.stateful {
		if !p.isCreatedBy(x.Call.Name) {
			continue
		}
		value := cmp.Or(findValue(response, p.Name, 0), findValue(x.Call.Args, p.Name, 0))
		if value == "" {
			continue
		}
		text, err := json.Marshal(response)
		if err != nil {
			return err
		}
		s.resourcesBytes += len(text) - len(s.resources[p.Name][value])
		if s.resourcesBytes > maxStateBytes {
			return errors.New("the stored responses exceed the limit of 256 KiB")
		}
		if s.resources[p.Name] == nil {
			s.resources[p.Name] = map[string]json.RawMessage{}
		}
		s.resources[p.Name][value] = text
	}
	return nil
}

func (p *StatefulParameter) isCreatedBy(name string) bool {
	for _, creating := range p.Creating {
		if creating == name {
			return true
		}
	}
	return false
}

// findValue returns the first string or number with a key, at any depth, or "".
func findValue(v any, key string, depth int) string {
	if depth > maxDepth {
		return ""
	}
	switch v := v.(type) {
	case map[string]any:
		switch own := v[key].(type) {
		case nil, map[string]any, []any:
		default:
			return template.String(own)
		}
		for _, k := range sortedKeys(v) {
			if found := findValue(v[k], key, depth+1); found != "" {
				return found
			}
		}
	case []any:
		for _, item := range v {
			if found := findValue(item, key, depth+1); found != "" {
				return found
			}
		}
	}
	return ""
}
