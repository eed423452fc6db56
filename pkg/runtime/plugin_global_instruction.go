package runtime

import (
	"context"

	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

type globalInstructionConfig struct {
	Instruction spec.Text `yaml:"instruction" required:"true" doc:"Instruction that every model gets first; {key} is replaced by the value in the session state."`
}

// newGlobalInstruction returns ADK's GlobalInstructionPlugin.
func newGlobalInstruction(_ context.Context, _ PluginEnv, c *globalInstructionConfig) (*Plugin, error) {
	text := newInstructionAt(c.Instruction)
	prepend := func(ctx context.Context, m *CallbackContext, req *model.Request) (*model.Response, error) {
		instruction, err := text.renderText(ctx, m.Invocation)
		if err != nil || instruction == "" {
			return nil, err
		}
		own := req.Instruction()
		req.Config.SystemInstruction = nil
		req.AppendInstruction(instruction)
		req.AppendInstruction(own)
		return nil, nil
	}
	return &Plugin{Name: "global_instruction", Callbacks: Callbacks{BeforeModel: []BeforeModelFunc{prepend}}}, nil
}
