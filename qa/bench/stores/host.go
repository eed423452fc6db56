package main

import (
	"context"
	"errors"
	"iter"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/storeurl"
	"agenthost/qa/bench/internal/engine"
)

// A hostStore runs an agent's whole turns on agenthost's store. Its model answers immediately.
type hostStore struct {
	store *store.Store
	host  *runtime.Host
}

func openHost(ctx context.Context, at *engine.Database) (*hostStore, error) {
	st, err := storeurl.Open(ctx, at.URL(), &storeurl.Options{Schemes: databaseSchemes(), Artifacts: "memory:"})
	if err != nil {
		return nil, err
	}
	root := runtime.NewLLM("agent", &runtime.LLMOptions{Model: echoModel{}, Instruction: runtime.NewInstruction("Answer.", nil)})
	a, err := runtime.NewApp(app, root, nil)
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	h := &hostStore{st, runtime.NewHost(st, nil)}
	h.host.Swap(a)
	return h, nil
}

func (h *hostStore) createSession(ctx context.Context, id string) error {
	_, err := h.store.Sessions.Create(ctx, session.Key{App: app, User: user, ID: id}, nil)
	return err
}

// runTurn runs a turn: both events are durable when it returns.
func (h *hostStore) runTurn(ctx context.Context, id string) error {
	for _, err := range h.host.Run(ctx, &runtime.RunRequest{App: app, UserID: user, SessionID: id, Message: model.UserText(text)}) {
		if err != nil {
			return err
		}
	}
	return nil
}

// commits counts the transactions so far.
func (h *hostStore) commits() int64 { return h.store.Stats().Transactions }

func (h *hostStore) close() error {
	h.host.Close()
	return h.store.Close()
}

// echoModel answers with every event's text.
type echoModel struct{}

// Name returns a name that no real model has.
func (echoModel) Name() string { return "echo" }

// Generate answers immediately.
func (echoModel) Generate(context.Context, *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		yield(&model.Response{Content: model.ModelText(text), FinishReason: genai.FinishReasonStop}, nil)
	}
}
