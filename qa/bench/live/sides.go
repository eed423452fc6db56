package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"io"
	"log"
	"log/slog"
	"net/http"
	"os"

	"github.com/coder/websocket"
	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/cmd/launcher"
	"google.golang.org/adk/v2/cmd/launcher/web"
	"google.golang.org/adk/v2/cmd/launcher/web/api"
	"google.golang.org/adk/v2/model/gemini"
	"google.golang.org/adk/v2/session"
	"google.golang.org/genai"

	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/store/storeurl"
	hostgemini "agenthost/wing/gemini"
	"agenthost/wing/live/liveweb"
)

// Side names.
const (
	fakeName   = "fake"
	relayName  = "relay"
	oursName   = "agenthost"
	theirsName = "adk-go"
)

const (
	app         = "voice"
	modelName   = "gemini-live-2.5-flash-native-audio"
	instruction = "Answer briefly."
	readLimit   = 1 << 20
)

// modelFrame is a Live API message with 40 ms of audio at 24 kHz.
func modelFrame() []byte {
	audio := base64.StdEncoding.EncodeToString(make([]byte, 24000*2*frameTime/1000))
	return []byte(`{"serverContent":{"modelTurn":{"role":"model","parts":[{"inlineData":{"mimeType":"audio/pcm;rate=24000","data":"` + audio + `"}}]}}}`)
}

// serveFake is the fake Live API: it accepts the setup, and answers each frame with one.
func serveFake(w http.ResponseWriter, r *http.Request) {
	conn, in, err := acceptSocket(w, r)
	if err != nil {
		return
	}
	defer conn.Close()
	answer := encodeFrame(opBinary, modelFrame(), false)
	reply := encodeFrame(opBinary, []byte(`{"setupComplete":{}}`), false)
	for frames := (&frameReader{Reader: in}); ; {
		op, _, payload, err := frames.next()
		switch {
		case err != nil:
			return
		case op == opPing:
			_, err = conn.Write(encodeFrame(opPong, payload, false))
		case op != opPong:
			_, err = conn.Write(reply)
			reply = answer
		}
		if err != nil {
			return
		}
	}
}

// A relay forwards each client message to the fake, and back.
type relay struct{ fake string }

// ServeHTTP implements [http.Handler].
func (h *relay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	client, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return
	}
	defer func() { _ = client.CloseNow() }()
	client.SetReadLimit(readLimit)
	model, _, err := websocket.Dial(r.Context(), "ws://"+h.fake, nil)
	if err != nil {
		return
	}
	defer func() { _ = model.CloseNow() }()
	model.SetReadLimit(readLimit)
	ctx, cancel := context.WithCancel(r.Context())
	go func() {
		defer cancel()
		forward(ctx, model, client)
	}()
	forward(ctx, client, model)
	cancel()
}

func forward(ctx context.Context, from, to *websocket.Conn) {
	for {
		kind, text, err := from.Read(ctx)
		if err != nil || to.Write(ctx, kind, text) != nil {
			return
		}
	}
}

// openAgenthost returns agenthost's server as configured by serve, with sessions in memory.
func openAgenthost(ctx context.Context, at *serverConfig) (http.Handler, error) {
	st, err := storeurl.Open(ctx, "memory:", &storeurl.Options{Artifacts: "memory:"})
	if err != nil {
		return nil, err
	}
	root := runtime.NewLLM(app, &runtime.LLMOptions{
		Model:       hostgemini.New(modelName, &hostgemini.Options{BaseURL: "http://" + at.Fake, APIKey: "bench"}),
		Instruction: runtime.NewInstruction(instruction, nil),
	})
	a, err := runtime.NewApp(app, root, nil)
	if err != nil {
		return nil, err
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	metrics := server.NewMetrics("bench")
	host := runtime.NewHost(st, &runtime.Options{Logger: logger, Observe: metrics.Observe})
	host.Swap(a)
	talks := liveweb.Extend(&liveweb.Options{MaxUserSockets: 100_000})
	return server.New(host, &server.Options{Logger: logger, Metrics: metrics, Extensions: []func(*server.Services) *server.Extension{talks}}), nil
}

// openADKGo returns adk-go's REST server as served by its command "web api", with sessions in
// memory and a discarded log.
func openADKGo(ctx context.Context, at *serverConfig) (http.Handler, error) {
	log.SetOutput(io.Discard)
	llm, err := gemini.NewModel(ctx, modelName, &genai.ClientConfig{
		APIKey: "bench", Backend: genai.BackendGeminiAPI, HTTPOptions: genai.HTTPOptions{BaseURL: "ws://" + at.Fake},
	})
	if err != nil {
		return nil, err
	}
	root, err := llmagent.New(llmagent.Config{Name: app, Model: llm, Instruction: instruction})
	if err != nil {
		return nil, err
	}
	launch := api.NewLauncher()
	if _, err := launch.Parse([]string{"--path_prefix=", "--sse-write-timeout=1h"}); err != nil {
		return nil, err
	}
	router := web.BuildBaseRouter()
	config := &launcher.Config{SessionService: session.InMemoryService(), AgentLoader: agent.NewSingleLoader(root)}
	return router, launch.SetupSubrouters(router, config)
}

// livePath returns the path to a side's socket for a session.
func livePath(side, id string) string {
	if side == relayName {
		return "/"
	}
	return "/run_live?app_name=" + app + "&user_id=" + cmp.Or(id, "u") + "&session_id=" + id
}
