package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log"
	"net/http"
	"slices"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/cmd/launcher"
	"google.golang.org/adk/v2/cmd/launcher/web"
	"google.golang.org/adk/v2/cmd/launcher/web/a2a"
	"google.golang.org/adk/v2/cmd/launcher/web/api"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/telemetry"
	"google.golang.org/genai"

	"agenthost/qa/bench/internal/engine"
)

// openADKGo returns adk-go's REST server as served by its command "web api a2a", with traces for
// developers and a request log, which is discarded. The write timeout for streams is raised to one
// hour.
func openADKGo(ctx context.Context, at *serverConfig) (http.Handler, io.Closer, error) {
	log.SetOutput(io.Discard)
	sessions, closer, err := adkSessions(at)
	if err != nil {
		return nil, nil, err
	}
	h, err := newADKRouter(ctx, at, sessions)
	if err != nil {
		return nil, nil, errors.Join(err, closer.Close())
	}
	return h, closer, nil
}

func newADKRouter(ctx context.Context, at *serverConfig, sessions session.Service) (http.Handler, error) {
	root, err := llmagent.New(llmagent.Config{Name: app, Model: adkModel{at.Script}, Instruction: instruction})
	if err != nil {
		return nil, err
	}
	launch := api.NewLauncher()
	if _, err := launch.Parse([]string{"--path_prefix=", "--sse-write-timeout=1h"}); err != nil {
		return nil, err
	}
	router, config := web.BuildBaseRouter(), &launcher.Config{SessionService: sessions, AgentLoader: agent.NewSingleLoader(root)}
	if err := errors.Join(a2a.NewLauncher().SetupSubrouters(router, config), launch.SetupSubrouters(router, config)); err != nil {
		return nil, err
	}
	providers, err := telemetry.New(ctx, config.TelemetryOptions...)
	if err != nil {
		return nil, err
	}
	providers.SetGlobalOtelProviders()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == messagePath {
			r.URL.Path = "/a2a/v1/invoke"
		}
		router.ServeHTTP(w, r)
	}), nil
}

func adkSessions(at *serverConfig) (session.Service, io.Closer, error) {
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
		return nil, nil, fmt.Errorf("unknown setup %q", at.Setup)
	}
	return d.Open(setups[i])
}

// adkModel answers with a script.
type adkModel struct{ script script }

// Name returns a name that no real model has.
func (adkModel) Name() string { return "script" }

// GenerateContent streams the script. Requests without streaming get no chunks.
func (m adkModel) GenerateContent(ctx context.Context, _ *model.LLMRequest, stream bool) iter.Seq2[*model.LLMResponse, error] {
	return func(yield func(*model.LLMResponse, error) bool) {
		err := m.script.streamText(ctx, func(text string, partial bool) bool {
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
