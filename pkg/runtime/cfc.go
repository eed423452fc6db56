package runtime

import (
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/wing/live"
)

// NeedsLiveAPI is the error of [RunConfig.SupportCFC] with a model that has no live API. Its
// arguments are the names of the model and of the agent.
const NeedsLiveAPI = "support_cfc requires models with a live API; model %s of agent %s has none"

// addGenerator makes the agent answer over a live connection, if the run config requires it
// (adk-python flows/llm_flows/base_llm_flow.py).
func (s *step) addGenerator() error {
	if !s.inv.run.config.SupportCFC {
		return nil
	}
	llm := model.LiveOf(s.inv.node.llm)
	if llm == nil {
		return invalidRequest(NeedsLiveAPI, s.inv.node.llm.Name(), s.agent.Name())
	}
	s.generator = live.NewGenerator(llm, func(req *model.Request) *model.LiveSetup { return s.inv.run.config.cfcSetup(req) })
	return nil
}

// closeGenerator ends the live connection of the agent.
func (s *step) closeGenerator() {
	if s.generator == nil {
		return
	}
	if err := s.generator.Close(); err != nil {
		s.inv.run.logger().Debug("closing the live connection failed", "agent", s.agent.Name(), "error", err)
	}
}

// cfcSetup returns the setup of a connection for one agent: its answers are text unless the
// run asks for speech, and the model can execute code that calls functions.
func (c *RunConfig) cfcSetup(req *model.Request) *model.LiveSetup {
	speaks := slices.Contains(c.ResponseModalities, string(genai.ModalityAudio))
	setup := &model.LiveSetup{
		Model: req.Model, SystemInstruction: req.Config.SystemInstruction, Tools: slices.Clip(req.Config.Tools),
		Thinking: req.Config.ThinkingConfig, Modalities: []genai.Modality{genai.ModalityText}, Origin: req.Origin,
	}
	if speaks {
		setup.Modalities = []genai.Modality{genai.ModalityAudio}
		setup.Speech, setup.OutputTranscription = req.Config.SpeechConfig, &genai.AudioTranscriptionConfig{}
	}
	if !slices.ContainsFunc(setup.Tools, func(t *genai.Tool) bool { return t.CodeExecution != nil }) {
		setup.Tools = append(setup.Tools, &genai.Tool{CodeExecution: &genai.ToolCodeExecution{}})
	}
	return setup
}
