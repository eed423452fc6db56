package evalweb

import (
	"fmt"
	"net/http"
	"strconv"

	"agenthost/wing/evaluation/eval"
)

// An evalResultView is a result without conversations.
type evalResultView struct {
	ID    string  `json:"id"`
	SetID string  `json:"setId"`
	Time  float64 `json:"time"`
	// Model is the model that replaced the app's models, Revision the app's revision.
	Model    string            `json:"model,omitempty"`
	Revision string            `json:"revision,omitempty"`
	Cases    []evalCaseOutcome `json:"cases"`
}

// An evalCaseOutcome is a case run without its conversation.
type evalCaseOutcome struct {
	CaseID  string            `json:"id"`
	Status  eval.Status       `json:"status"`
	Turns   int               `json:"turns"`
	Metrics []evalMetricScore `json:"metrics"`
	// Tokens and Cost, in US dollars, include the app and the judges; they are omitted if
	// unknown.
	Tokens int64    `json:"tokens,omitempty"`
	Cost   *float64 `json:"costUsd,omitempty"`
	// Reason is the first note about the case itself, such as why it crashed.
	Reason string `json:"reason,omitempty"`
}

// An evalMetricScore is a metric's score for a case.
type evalMetricScore struct {
	Metric    string      `json:"metric"`
	Score     *float64    `json:"score,omitempty"`
	Threshold *float64    `json:"threshold,omitempty"`
	Status    eval.Status `json:"status"`
}

// handleEvalResultView responds with a result's scores.
func (s *handlers) handleEvalResultView(w http.ResponseWriter, r *http.Request) error {
	return s.sendEvalView(w, r, func() (any, error) {
		result, err := s.readEvalResult(r)
		if err != nil {
			return nil, err
		}
		view := &evalResultView{result.ID, result.SetID, result.CreationTimestamp, result.Model, result.Revision, make([]evalCaseOutcome, len(result.Cases))}
		for i, c := range result.Cases {
			view.Cases[i] = newCaseOutcome(c)
		}
		return view, nil
	})
}

func newCaseOutcome(c *eval.CaseResult) evalCaseOutcome {
	o := evalCaseOutcome{CaseID: c.CaseID, Status: c.Status, Turns: len(c.Turns), Metrics: make([]evalMetricScore, len(c.Overall))}
	for i, m := range c.Overall {
		o.Metrics[i] = evalMetricScore{m.Metric, m.Score, m.RequiredScore(), m.Status}
	}
	if c.Usage != nil {
		sum := eval.Usage{}
		sum.Add(c.Usage.Turns)
		sum.Add(c.Usage.Judges)
		o.Tokens, o.Cost = sum.Tokens(), sum.Cost
	}
	for _, n := range c.Notes {
		if n.Metric == "" && o.Reason == "" {
			o.Reason = cutText(n.Reason, maxFirstMessage)
		}
	}
	return o
}

// handleEvalCaseResult responds with one case in a result, by its index.
func (s *handlers) handleEvalCaseResult(w http.ResponseWriter, r *http.Request) error {
	return s.sendEval(w, r, func() (any, error) {
		result, err := s.readEvalResult(r)
		if err != nil {
			return nil, err
		}
		i, err := strconv.Atoi(r.PathValue("index"))
		if err != nil || i < 0 || i >= len(result.Cases) {
			return nil, notFoundError(fmt.Sprintf("Eval set result `%s` has no case %s", result.ID, r.PathValue("index")))
		}
		c := result.Cases[i]
		c.Session = convertKeys(c.Session)
		return c, nil
	})
}
