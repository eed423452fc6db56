package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"log"
	"net/http"
	"slices"
	"time"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/server/adkrest"
	"google.golang.org/adk/v2/session"
	"google.golang.org/genai"

	"agenthost/bench/internal/engine"
)

// patience is adk-go's time for a whole stream, longer than any here.
const patience = time.Hour

// theirs is adk-go's REST server, without what its launcher puts around it: no
// log of requests, no telemetry.
func theirs(_ context.Context, at *serving) (http.Handler, io.Closer, error) {
	log.SetOutput(io.Discard)
	sessions, closer, err := adkSessions(at)
	if err != nil {
		return nil, nil, err
	}
	root, err := llmagent.New(llmagent.Config{Name: app, Model: adkModel{at.Script}, Instruction: instruction})
	if err != nil {
		return nil, nil, err
	}
	h, err := adkrest.NewServer(adkrest.ServerConfig{
		SessionService: sessions, AgentLoader: agent.NewSingleLoader(root), SSEWriteTimeout: patience,
	})
	return h, closer, err
}

func adkSessions(at *serving) (session.Service, io.Closer, error) {
	if at.URL == "" {
		return session.InMemoryService(), io.NopCloser(nil), nil
	}
	d, err := engine.Parse(at.URL)
	if err != nil {
		return nil, nil, err
	}
	setups := d.Setups()
	i := slices.IndexFunc(setups, func(s engine.Setup) bool { return s.Name == at.Setup })
	if i < 0 {
		return nil, nil, fmt.Errorf("no setup is called %q", at.Setup)
	}
	return d.Open(setups[i])
}

// adkModel plays a script.
type adkModel struct{ script script }

// Name is the name of no real model.
func (adkModel) Name() string { return "script" }

// GenerateContent plays it; pieces come only to who asks for a stream.
func (m adkModel) GenerateContent(ctx context.Context, _ *model.LLMRequest, stream bool) iter.Seq2[*model.LLMResponse, error] {
	return func(yield func(*model.LLMResponse, error) bool) {
		err := m.script.play(ctx, func(text string, partial bool) bool {
			if partial && !stream {
				return true
			}
			r := &model.LLMResponse{Content: genai.NewContentFromText(text, genai.RoleModel), Partial: partial}
			if !partial {
				r.FinishReason = genai.FinishReasonStop
			}
			return yield(r, nil)
		})
		if err != nil {
			yield(nil, err)
		}
	}
}
