package runtime_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
)

// mixingModel is a model that accepts tools and a schema in one request.
type mixingModel struct{ modelFunc }

func (mixingModel) MixesToolsAndSchema() bool { return true }

func numberSchema(t *testing.T) *tool.Schema {
	t.Helper()
	s, err := declare.Schema(map[string]any{"type": "integer"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestOutputSchemaRequest: an output schema is in the request if the model supports it, and
// otherwise a tool with an instruction.
func TestOutputSchemaRequest(t *testing.T) {
	noop := &testTool{name: "noop"}
	for _, tt := range []struct {
		name  string
		tools []tool.Tool
		subs  []runtime.Agent
		mixes bool
		want  string
	}{
		{"alone", nil, nil, false, "schema integer application/json"},
		{"tools", []tool.Tool{noop}, nil, false, "tools noop set_model_response instruction"},
		{"hand-over", nil, []runtime.Agent{runtime.NewLLM("sub", nil)}, false, "tools transfer_to_agent set_model_response instruction"},
		{"tools, and a model that mixes", []tool.Tool{noop}, nil, true, "schema integer application/json tools noop"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := testenv.New(t, nil)
			key := e.Session(t, "app", "s", nil)
			var got string
			recording := modelFunc(func(_ context.Context, req *model.Request) (*genai.Content, error) {
				got = formatRequest(req)
				return model.ModelText("7"), nil
			})
			llm := model.LLM(recording)
			if tt.mixes {
				llm = mixingModel{recording}
			}
			deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{
				Model: llm, Tools: tt.tools, SubAgents: tt.subs, OutputSchema: numberSchema(t),
			}), nil)
			formatRun(e.Host.Run(t.Context(), userMessage(key, "x")))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

// formatRequest formats a request's tools and response schema.
func formatRequest(req *model.Request) string {
	var words []string
	if s, ok := req.Config.ResponseJsonSchema.(map[string]any); ok {
		words = append(words, "schema", s["type"].(string), req.Config.ResponseMIMEType)
	}
	for _, group := range req.Config.Tools {
		words = append(words, "tools")
		for _, d := range group.FunctionDeclarations {
			words = append(words, d.Name)
		}
	}
	if strings.Contains(req.Instruction(), "`set_model_response`") {
		words = append(words, "instruction")
	}
	return strings.Join(words, " ")
}

func TestOutputSchemaToolNameTaken(t *testing.T) {
	_, err := runtime.NewApp("app", runtime.NewLLM("a", &runtime.LLMOptions{
		Model: textModel("7"), OutputSchema: numberSchema(t), Tools: []tool.Tool{&testTool{name: "set_model_response"}},
	}), nil)
	want := "app app: agent a has a tool named set_model_response, a name that is reserved for its output_schema"
	if err == nil || err.Error() != want {
		t.Errorf("NewApp = %v, want %s", err, want)
	}
}
