package main

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/agent/workflowagents/parallelagent"
	"google.golang.org/adk/v2/agent/workflowagents/sequentialagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/functiontool"
	"google.golang.org/genai"
)

// adkTree creates a scene's agents.
func adkTree(s Scene, m model.LLM) (agent.Agent, error) {
	config := llmagent.Config{Name: adkAgent, Model: m, Instruction: Instruction}
	if s.Tool {
		forecast, err := functiontool.New(functiontool.Config{Name: ToolName, Description: ToolHelp},
			func(agent.Context, Place) (Forecast, error) { return Forecast{toolResult}, nil })
		if err != nil {
			return nil, err
		}
		config.Tools = []tool.Tool{forecast}
	}
	children := make([]agent.Agent, s.Sequence+s.Parallel)
	for i := range children {
		config.Name = fmt.Sprintf("%s_%d", adkAgent, i)
		child, err := llmagent.New(config)
		if err != nil {
			return nil, err
		}
		children[i] = child
	}
	parent := agent.Config{Name: adkAgent, SubAgents: children}
	switch {
	case s.Sequence > 0:
		return sequentialagent.New(sequentialagent.Config{AgentConfig: parent})
	case s.Parallel > 0:
		return parallelagent.New(parallelagent.Config{AgentConfig: parent})
	}
	return llmagent.New(config)
}

// adkModel answers immediately.
type adkModel struct {
	scene  Scene
	chunks []*model.LLMResponse
	seen   atomic.Int64
}

func newADKModel(s Scene) *adkModel {
	m := &adkModel{scene: s}
	for _, c := range s.partialContents() {
		m.chunks = append(m.chunks, &model.LLMResponse{Content: c, Partial: true})
	}
	return m
}

// Name returns a name that no real model has.
func (*adkModel) Name() string { return "instant" }

// GenerateContent answers according to the scene and counts the contents in the request.
func (m *adkModel) GenerateContent(_ context.Context, req *model.LLMRequest, _ bool) iter.Seq2[*model.LLMResponse, error] {
	return func(yield func(*model.LLMResponse, error) bool) {
		m.seen.Store(int64(len(req.Contents)))
		for _, p := range m.chunks {
			if !yield(p, nil) {
				return
			}
		}
		yield(&model.LLMResponse{Content: m.scene.modelAnswer(req.Contents), FinishReason: genai.FinishReasonStop}, nil)
	}
}
