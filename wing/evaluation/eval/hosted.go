package eval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/genai"

	"agenthost/internal/safe"
)

// VertexJudge is the judge_model that selects Vertex AI's evaluation service for a metric
// that [Metric.Hosted] names.
const VertexJudge = "vertex_ai/evaluation"

// openService returns the service if the criterion selects it; nil if a model is the judge.
func openService(in *Input) (Service, error) {
	if in.Criterion.Judge == nil || in.Criterion.Judge.Model != VertexJudge {
		return nil, nil
	}
	if in.Service == nil {
		return nil, errors.New("the Vertex AI evaluation service is not available: set GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION, and sign in with gcloud auth application-default login")
	}
	return in.Service, nil
}

// maxServiceCalls limits a case's concurrent calls.
const maxServiceCalls = 4

// A serviceRequest is the evaluateInstances body.
type serviceRequest struct {
	Metrics  []serviceMetric `json:"metrics"`
	Instance serviceInstance `json:"instance"`
}

type serviceMetric struct {
	Predefined struct {
		Name string `json:"metric_spec_name"`
	} `json:"predefined_metric_spec"`
}

type serviceInstance struct {
	Prompt   *serviceContents `json:"prompt,omitempty"`
	Response *serviceContents `json:"response,omitempty"`
	Agents   *serviceAgents   `json:"agent_eval_data,omitempty"`
}

type serviceContents struct {
	Contents struct {
		Contents []*genai.Content `json:"contents"`
	} `json:"contents"`
}

type serviceAgents struct {
	Agents map[string]*serviceAgent `json:"agents,omitempty"`
	Turns  []*serviceTurn           `json:"turns"`
}

type serviceAgent struct {
	ID          string        `json:"agentId"`
	Instruction string        `json:"instruction,omitempty"`
	Tools       []*genai.Tool `json:"tools,omitempty"`
}

type serviceTurn struct {
	Index  int             `json:"turnIndex"`
	ID     string          `json:"turnId"`
	Events []*serviceEvent `json:"events"`
}

type serviceEvent struct {
	Author  string         `json:"author"`
	Content *genai.Content `json:"content"`
}

// measureSafetyByService scores each turn with one call.
func measureSafetyByService(ctx context.Context, in *Input, service Service) *Scores {
	s := &Scores{Judge: VertexJudge}
	slots := make(chan struct{}, maxServiceCalls)
	s.Turns = (&panel{}).eachTurn(len(in.Actual), func(i int) *TurnScore {
		slots <- struct{}{}
		defer func() { <-slots }()
		inv := in.Actual[i]
		instance := serviceInstance{
			Prompt:   newServiceContents(genai.RoleUser, textOf(inv.UserContent)),
			Response: newServiceContents(genai.RoleModel, textOf(inv.FinalResponse)),
		}
		return requestScore(ctx, service, Safety, &instance, in.Threshold)
	})
	s.setOverall(meanOf(scoresOf(s.Turns)), in.Threshold)
	return s
}

func newServiceContents(role genai.Role, text string) *serviceContents {
	c := &serviceContents{}
	c.Contents.Contents = []*genai.Content{genai.NewContentFromText(text, role)}
	return c
}

// measureConversationByService scores the whole conversation on its last turn with one call.
func measureConversationByService(ctx context.Context, in *Input, service Service, metric string) *Scores {
	s := &Scores{Judge: VertexJudge}
	for range len(in.Actual) - 1 {
		s.Turns = append(s.Turns, &TurnScore{Status: NotEvaluated})
	}
	var last *TurnScore
	if p := safe.Call(func() {
		last = requestScore(ctx, service, metric, &serviceInstance{Agents: newServiceAgents(in.Actual)}, in.Threshold)
	}); p != nil {
		last = &TurnScore{Status: NotEvaluated, Reason: p.Error()}
	}
	s.Turns = append(s.Turns, last)
	s.setOverall(last.Score, in.Threshold)
	return s
}

// newServiceAgents describes turns as adk-python vertex_ai_eval_facade.py: the user, the
// intermediate events and the final response, for each turn. Events without content are left
// out.
func newServiceAgents(turns []*Invocation) *serviceAgents {
	data := &serviceAgents{Agents: map[string]*serviceAgent{}}
	for i, inv := range turns {
		t := &serviceTurn{Index: i, ID: inv.ID}
		t.addEvent("user", inv.UserContent)
		if d := inv.Intermediate; d != nil {
			for _, e := range d.Events {
				t.addEvent(e.Author, e.Content)
			}
			for _, r := range d.Responses {
				t.addEvent(r.Author, &genai.Content{Role: genai.RoleModel, Parts: r.Parts})
			}
		}
		t.addEvent("agent", inv.FinalResponse)
		data.Turns = append(data.Turns, t)
		if inv.App == nil {
			continue
		}
		for name, a := range inv.App.Agents {
			data.Agents[name] = &serviceAgent{ID: name, Instruction: a.Instructions, Tools: a.Tools}
		}
	}
	return data
}

func (t *serviceTurn) addEvent(author string, c *genai.Content) {
	if c != nil {
		t.Events = append(t.Events, &serviceEvent{author, c})
	}
}

// requestScore sends one instance, and reads its score.
func requestScore(ctx context.Context, service Service, metric string, instance *serviceInstance, threshold float64) *TurnScore {
	req := serviceRequest{Metrics: make([]serviceMetric, 1), Instance: *instance}
	req.Metrics[0].Predefined.Name = metric
	body, err := json.Marshal(&req)
	if err != nil {
		return &TurnScore{Status: NotEvaluated, Reason: err.Error()}
	}
	answer, err := service.Evaluate(ctx, body)
	if err != nil {
		return &TurnScore{Status: NotEvaluated, Reason: err.Error()}
	}
	t := readServiceAnswer(answer)
	t.Status = StatusOf(t.Score, threshold)
	return t
}

// readServiceAnswer reads the only metric's score. A score other than a number from 0 to 1
// does not count.
func readServiceAnswer(answer []byte) *TurnScore {
	var body struct {
		Results []struct {
			Score       json.RawMessage `json:"score"`
			Explanation string          `json:"explanation"`
			Verdicts    []struct {
				Verdict   bool   `json:"verdict"`
				Reasoning string `json:"reasoning"`
			} `json:"rubricVerdicts"`
			Error *struct {
				Code    int    `json:"code"`
				Message string `json:"message"`
			} `json:"error"`
		} `json:"metricResults"`
	}
	t := &TurnScore{}
	if err := json.Unmarshal(answer, &body); err != nil {
		t.Reason, t.Answer = "the response of the evaluation service is not JSON of the expected form: "+err.Error(), limitText(string(answer))
		return t
	}
	if len(body.Results) != 1 {
		t.Reason, t.Answer = fmt.Sprintf("the evaluation service returned %d results, expected 1", len(body.Results)), limitText(string(answer))
		return t
	}
	r := body.Results[0]
	if r.Error != nil && r.Error.Message != "" {
		t.Reason = fmt.Sprintf("Vertex AI evaluation service: %d: %s", r.Error.Code, limitText(r.Error.Message))
		return t
	}
	var score float64
	if err := json.Unmarshal(r.Score, &score); err != nil || score < 0 || score > 1 {
		t.Reason, t.Answer = "the answer of the evaluation service has no score from 0 to 1", limitText(string(answer))
		return t
	}
	t.Score, t.Reason = &score, limitText(r.Explanation)
	for _, v := range r.Verdicts {
		if t.Reason == "" {
			t.Reason = limitText(v.Reasoning)
		}
	}
	return t
}
