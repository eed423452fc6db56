package runtime_test

import (
	"context"
	"testing"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
)

// TestRequestSettings: changes by callbacks and settings of one run do not leak
// into later requests. A config that nothing can change is built once and shared.
func TestRequestSettings(t *testing.T) {
	cold := genai.Ptr[float32](0)
	setTemperature := func(_ context.Context, _ *runtime.CallbackContext, req *model.Request) (*model.Response, error) {
		if req.Config.Temperature == nil {
			req.Config.Temperature = cold
			req.AppendInstruction("Be brief.")
		}
		return nil, nil
	}
	failing := func(context.Context, *runtime.CallbackContext, *model.Request, error) (*model.Response, error) {
		return nil, nil
	}
	for _, tt := range []struct {
		name, instruction string
		callbacks         runtime.Callbacks
		planner           *runtime.Planner
		shared            bool
		suffix            string // after the agent's identity
		temperature       *float32
	}{
		{name: "plain", instruction: "Answer.", shared: true},
		{name: "filled", instruction: "Answer{name?}."},
		{
			name: "changed by a callback", instruction: "Answer.",
			callbacks: runtime.Callbacks{BeforeModel: []runtime.BeforeModelFunc{setTemperature}},
			suffix:    "\n\nBe brief.", temperature: cold,
		},
		{
			name: "shown to a callback", instruction: "Answer.",
			callbacks: runtime.Callbacks{OnModelError: []runtime.ModelErrorFunc{failing}},
		},
		{
			name: "planned", instruction: "Answer.",
			planner: &runtime.Planner{Thinking: &genai.ThinkingConfig{IncludeThoughts: true}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var configs []*genai.GenerateContentConfig
			llm := modelFunc(func(_ context.Context, req *model.Request) (*genai.Content, error) {
				configs = append(configs, req.Config)
				return model.ModelText("ok"), nil
			})
			opts := &runtime.LLMOptions{
				Model: llm, Instruction: runtime.NewInstruction(tt.instruction, nil), Callbacks: tt.callbacks, Planner: tt.planner,
			}
			app, err := runtime.NewApp("a", runtime.NewLLM("clerk", opts), nil)
			if err != nil {
				t.Fatal(err)
			}
			host, err := runtime.InMemory(app)
			if err != nil {
				t.Fatal(err)
			}
			audioConfig := app.Config
			audioConfig.ResponseModalities = []string{"AUDIO"}
			for _, config := range []*runtime.RunConfig{nil, &audioConfig, nil} {
				req := &runtime.RunRequest{App: "a", UserID: "u", SessionID: "s", CreateSession: true, Message: model.UserText("hello"), Config: config}
				for _, err := range host.Run(t.Context(), req) {
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			if first, last := configs[0], configs[2]; (first == last) != tt.shared {
				t.Errorf("settings are shared: %v, want %v", first == last, tt.shared)
			}
			if len(configs[0].ResponseModalities) != 0 || len(configs[1].ResponseModalities) != 1 || len(configs[2].ResponseModalities) != 0 {
				t.Errorf("modalities %v, %v, %v", configs[0].ResponseModalities, configs[1].ResponseModalities, configs[2].ResponseModalities)
			}
			want := "Answer.\n\nYou are an agent. Your internal name is \"clerk\"." + tt.suffix
			for i, c := range configs {
				if got := model.TextOf(c.SystemInstruction); got != want || c.Temperature != tt.temperature {
					t.Errorf("request %d: temperature %v, instruction %q, want %v, %q", i+1, c.Temperature, got, tt.temperature, want)
				}
			}
		})
	}
}
