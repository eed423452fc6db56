package live

import (
	"context"
	"slices"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
)

// TaskCompleted is the tool with which an agent in a sequence ends its part of a live conversation
// (adk-python agents/sequential_agent.py).
const TaskCompleted = "task_completed"

const taskCompletedInstruction = "When the user is satisfied with your part of the task, or you are done with it, " +
	"call the function `" + TaskCompleted + "` to let the next agent take over. Write nothing besides the call."

// addTaskCompleted adds the tool that ends the agent's part, in this run only.
func (a *liveAgent) addTaskCompleted() error {
	done, err := declare.Func(TaskCompleted, "Reports that your part of the task is complete.", func(context.Context, *tool.Call, struct{}) (string, error) {
		return "Task completion signaled.", nil
	})
	if err != nil {
		return err
	}
	a.AddTool(done)
	return nil
}

// buildSetup builds what a conversation's connections share, and returns its history. before_model
// sees the request that begins a conversation, and may change it; its answer ends the agent before
// it connects. adk-python calls no model callbacks in live runs, which would disable plugins such
// as global_instruction.
func (a *liveAgent) buildSetup(ctx context.Context) (history []*genai.Content, err error) {
	req, answer, err := a.BuildRequest(ctx, func(req *model.Request) {
		req.Contents = withoutAudio(req.Contents)
		if a.InSequence() {
			req.AppendNote(taskCompletedInstruction)
		}
	})
	if err != nil {
		return nil, err
	}
	a.answer = answer
	a.setup = newSetup(a.config, req, a.traits)
	if !a.traits.NoAsyncCalls {
		a.setup.Tools = a.markAsync(a.setup.Tools)
	}
	return req.Contents, nil
}

// attemptSetup returns the attempt's setup.
func (a *liveAgent) attemptSetup() *model.LiveSetup {
	setup := *a.setup
	if setup.Resumption != nil || a.attempt.handle != "" {
		resumption := genai.SessionResumptionConfig{}
		if setup.Resumption != nil {
			resumption = *setup.Resumption
		}
		resumption.Handle = a.attempt.handle
		resumption.Transparent = resumption.Transparent || a.attempt.handle != "" && a.traits.CanReplay
		setup.Resumption = &resumption
	}
	if len(a.attempt.history) > 0 && setup.History == nil {
		setup.History = &genai.HistoryConfig{InitialHistoryInClientContent: true}
	}
	setup.Origin = a.RequestOrigin()
	return &setup
}

// sendHistory begins a new conversation.
func (a *liveAgent) sendHistory() {
	history := a.attempt.history
	if len(history) == 0 {
		return
	}
	frame := &model.LiveFrame{Turns: history, TurnComplete: history[len(history)-1].Role == genai.RoleUser && !a.attempt.waits}
	var speak *model.LiveFrame
	if a.attempt.speak && a.traits.AnswersHistory && frame.TurnComplete {
		a.turnOpen = true
	} else if a.attempt.speak {
		speak = &model.LiveFrame{Turns: []*genai.Content{model.UserText(ContinueText)}, TurnComplete: true}
		if a.traits.RealtimeText {
			speak = &model.LiveFrame{Text: ContinueText}
		}
		a.turnOpen = true
	}
	a.out.Seed(frame, speak, time.Now())
}

// newSetup returns a live connection's setup: the request's settings that the Live API supports,
// and the run's (adk-python flows/llm_flows/basic.py).
func newSetup(c *runtime.RunConfig, req *model.Request, traits model.LiveTraits) *model.LiveSetup {
	s := &model.LiveSetup{
		Model: req.Model, SystemInstruction: req.Config.SystemInstruction, Tools: req.Config.Tools,
		Thinking: req.Config.ThinkingConfig, Speech: req.Config.SpeechConfig,
		InputTranscription: c.InputAudioTranscription, OutputTranscription: c.OutputAudioTranscription,
		RealtimeInput: c.RealtimeInputConfig, Resumption: c.SessionResumption, Compression: c.ContextWindowCompression,
		Proactivity: c.Proactivity, AffectiveDialog: c.EnableAffectiveDialog, Avatar: c.AvatarConfig,
		ExplicitVAD: c.ExplicitVADSignal, Translation: c.TranslationConfig, History: c.HistoryConfig,
	}
	if s.InputTranscription == nil {
		s.InputTranscription = &genai.AudioTranscriptionConfig{}
	}
	if s.OutputTranscription == nil {
		s.OutputTranscription = &genai.AudioTranscriptionConfig{}
	}
	if traits.NoDialogOptions {
		s.Proactivity, s.AffectiveDialog = nil, nil
	}
	for _, m := range c.ResponseModalities {
		s.Modalities = append(s.Modalities, genai.Modality(m))
	}
	if len(s.Modalities) == 0 {
		s.Modalities = []genai.Modality{genai.ModalityAudio}
	}
	return s
}

// withoutAudio returns the history without audio, which the Live API does not accept in
// contents (adk-python flows/llm_flows/contents.py).
func withoutAudio(contents []*genai.Content) []*genai.Content {
	kept := make([]*genai.Content, 0, len(contents))
	for _, c := range contents {
		if !slices.ContainsFunc(c.Parts, model.IsAudio) {
			kept = append(kept, c)
			continue
		}
		without := *c
		without.Parts = slices.DeleteFunc(slices.Clone(c.Parts), model.IsAudio)
		if len(without.Parts) > 0 {
			kept = append(kept, &without)
		}
	}
	return kept
}
