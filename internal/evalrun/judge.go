package evalrun

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"sync"

	"google.golang.org/genai"

	"agenthost/pkg/eval"
	"agenthost/pkg/model"
)

// The agents that scripted models see as the origin of requests.
const (
	judgeOrigin = "judge"
	userOrigin  = "user"
)

// Models are models by name, for judges and simulated users.
type Models map[string]model.LLM

// openJudge opens the judge that options select; it is an [eval.Judges].
func (m Models) openJudge(_ context.Context, o *eval.JudgeOptions) (eval.Judge, error) {
	return m.openModel(judgeOrigin, o.Model, o.Config)
}

func (m Models) openModel(origin, name string, config json.RawMessage) (*judge, error) {
	llm, ok := m[name]
	if !ok {
		return nil, fmt.Errorf("model %s is not loaded", name)
	}
	j := &judge{llm: llm, origin: origin, config: &genai.GenerateContentConfig{}}
	if len(config) > 0 {
		if err := eval.Decode(name, config, j.config); err != nil {
			return nil, fmt.Errorf("reading the config of model %s: %w", name, err)
		}
	}
	return j, nil
}

// A judge answers prompts by a model.
type judge struct {
	llm    model.LLM
	origin string
	config *genai.GenerateContentConfig
}

// Answer returns the text of one response without thoughts.
func (j *judge) Answer(ctx context.Context, prompt string) (string, error) {
	config := *j.config
	req := &model.Request{
		Contents: []*genai.Content{model.UserText(prompt)}, Config: &config,
		Origin: model.Origin{Agent: j.origin, UserText: prompt, Turn: 1},
	}
	for resp, err := range j.llm.Generate(ctx, req) {
		switch {
		case err != nil:
			return "", err
		case resp.Partial:
		case resp.ErrorCode != "":
			return "", fmt.Errorf("model %s returned %s: %s", j.llm.Name(), resp.ErrorCode, resp.ErrorMessage)
		default:
			return model.TextOf(resp.Content), nil
		}
	}
	return "", fmt.Errorf("model %s returned no response", j.llm.Name())
}

// WrapModel returns a model that records the instructions and tools of its requests during
// a case, for metrics that judge by them. Without it, turns have no app details.
func WrapModel(llm model.LLM) model.LLM { return &loggedModel{llm} }

type loggedModel struct{ model.LLM }

var (
	_ model.ContentCacher = (*loggedModel)(nil)
	_ model.CodeRunner    = (*loggedModel)(nil)
)

// CachesContents reports the capability of the model; see [model.CanCache].
func (m *loggedModel) CachesContents() bool { return model.CanCache(m.LLM) }

// RunsCode reports the capability of the model; see [model.RunsCode].
func (m *loggedModel) RunsCode() bool { return model.RunsCode(m.LLM) }

// Generate records the request and calls the model; see [model.LLM].
func (m *loggedModel) Generate(ctx context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	if log, ok := ctx.Value(requestLogKey{}).(*requestLog); ok {
		log.addRequest(req)
	}
	return m.LLM.Generate(ctx, req)
}

type requestLogKey struct{}

// A requestLog has the details of each agent's first request in a turn.
type requestLog struct {
	mu     sync.Mutex
	agents map[string]*eval.AgentDetails
}

func withRequestLog(ctx context.Context) (context.Context, *requestLog) {
	log := &requestLog{agents: map[string]*eval.AgentDetails{}}
	return context.WithValue(ctx, requestLogKey{}, log), log
}

func (l *requestLog) addRequest(req *model.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := req.Origin.Agent
	if l.agents[name] != nil {
		return
	}
	l.agents[name] = &eval.AgentDetails{Name: name, Instructions: req.Instruction()}
	if req.Config != nil {
		l.agents[name].Tools = req.Config.Tools
	}
}

// appDetails returns what is recorded, or nil.
func (l *requestLog) appDetails() *eval.AppDetails {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.agents) == 0 {
		return nil
	}
	return &eval.AppDetails{Agents: l.agents}
}
