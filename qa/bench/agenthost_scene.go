package main

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
)

// hostTree creates a scene's agents.
func hostTree(s Scene, m model.LLM) (runtime.Agent, error) {
	opts := runtime.LLMOptions{Model: m, Instruction: runtime.NewInstruction(Instruction, nil)}
	if s.Tool {
		forecast, err := declare.Func(ToolName, ToolHelp, func(context.Context, *tool.Call, Place) (Forecast, error) {
			return Forecast{toolResult}, nil
		})
		if err != nil {
			return nil, err
		}
		opts.Tools = []tool.Tool{forecast}
	}
	children := make([]runtime.Agent, s.Sequence+s.Parallel)
	for i := range children {
		children[i] = runtime.NewLLM(fmt.Sprintf("%s_%d", hostAgent, i), &opts)
	}
	switch {
	case s.Sequence > 0:
		return runtime.NewSequential(hostAgent, "", children...), nil
	case s.Parallel > 0:
		return runtime.NewParallel(hostAgent, "", children...), nil
	}
	return runtime.NewLLM(hostAgent, &opts), nil
}

// hostModel answers immediately.
type hostModel struct {
	scene  Scene
	chunks []*model.Response
	seen   atomic.Int64
}

func newHostModel(s Scene) *hostModel {
	m := &hostModel{scene: s}
	for _, c := range s.partialContents() {
		m.chunks = append(m.chunks, &model.Response{Content: c, Partial: true})
	}
	return m
}

// Name returns a name that no real model has.
func (*hostModel) Name() string { return "instant" }

// Generate answers according to the scene and counts the contents in the request.
func (m *hostModel) Generate(_ context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		m.seen.Store(int64(len(req.Contents)))
		for _, p := range m.chunks {
			if !yield(p, nil) {
				return
			}
		}
		yield(&model.Response{Content: m.scene.modelAnswer(req.Contents), FinishReason: genai.FinishReasonStop}, nil)
	}
}
