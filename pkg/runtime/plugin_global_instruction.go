package runtime

import (
	"context"

	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

type globalInstructionConfig struct {
	Instruction spec.Text `yaml:"instruction" required:"true" doc:"Instruction that every model gets first; {key} is replaced by the value in the session state."`
}

// newGlobalInstruction makes ADK's GlobalInstructionPlugin.
func newGlobalInstruction(_ context.Context, _ PluginEnv, c *globalInstructionConfig) (*Plugin, error) {
	text := newInstructionAt(c.Instruction)
	tell := func(ctx context.Context, m *CallbackContext, req *model.Request) (*model.Response, error) {
		told, err := text.renderText(ctx, m.Invocation)
		if err != nil || told == "" {
			return nil, err
		}
		own := req.Instruction()
		req.Config.SystemInstruction = nil
		req.AppendInstruction(told)
		req.AppendInstruction(own)
		return nil, nil
	}
	return &Plugin{Name: "global_instruction", Callbacks: Callbacks{BeforeModel: []BeforeModelFunc{tell}}}, nil
}
