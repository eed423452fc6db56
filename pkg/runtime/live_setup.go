package runtime

import (
	"context"
	"slices"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/tool"
	"agenthost/wing/live"
)

// TaskCompleted is the tool with which an agent of a sequence ends its part of a live
// conversation (adk-python agents/sequential_agent.py).
const TaskCompleted = "task_completed"

const taskCompletedInstruction = "When the user is satisfied with your part of the task, or you are done with it, " +
	"call the function `" + TaskCompleted + "` to let the next agent take over. Write nothing besides the call."

// inSequence reports whether another agent continues after this one.
func (inv *Invocation) inSequence() bool {
	if inv.node.parent == nil {
		return false
	}
	_, ok := inv.node.parent.agent.(*SequentialAgent)
	return ok
}

// addTaskCompleted adds the tool that ends the agent's part, in this run only.
func (inv *Invocation) addTaskCompleted(a *LLMAgent) error {
	done, err := tool.FromFunc(TaskCompleted, "Reports that your part of the task is complete.", func(context.Context, *tool.Call, struct{}) (string, error) {
		return "Task completion signaled.", nil
	})
	if err != nil {
		return err
	}
	inv.toolbox = a.buildToolbox(append(slices.Clip(inv.activeToolbox().listTools()), done))
	return nil
}

// buildSetup builds what all connections of a conversation have in common, and returns its
// history. before_model sees the request that begins a conversation, and may change it; its
// answer ends the agent before it connects. adk-python calls no callbacks of models in live
// runs, which would disable plugins such as global_instruction.
func (a *liveAgent) buildSetup(ctx context.Context) (history []*genai.Content, err error) {
	req, userContents, err := a.inv.prepareRequest(ctx, a.agent)
	if err != nil {
		return nil, err
	}
	contents, err := a.inv.buildContents(a.agent.opts.IncludeContents)
	if err != nil {
		return nil, err
	}
	req.Contents = liveContents(insertBeforeUserTail(contents, userContents))
	if a.inv.toolbox != nil {
		config := *req.Config
		config.Tools = a.inv.toolbox.declared // the request may be one that runs share
		req.Config = &config
	}
	if a.inv.inSequence() {
		req.AppendNote(taskCompletedInstruction)
	}
	if err := a.inv.applyRequestEditors(ctx, req); err != nil {
		return nil, err
	}
	if a.inv.node.hooks != nil {
		answer, err := a.inv.runBeforeModel(ctx, a.modelCallbackContext(), req)
		if err != nil {
			hookErr, _ := asHookError(err)
			return nil, hookErr
		}
		a.answer = answer
	}
	a.setup = a.config.liveSetup(req, a.traits)
	if !a.traits.NoAsyncCalls {
		a.setup.Tools = a.inv.activeToolbox().markAsync(a.setup.Tools)
	}
	return req.Contents, nil
}

// attemptSetup returns the setup of the attempt.
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
	setup.Origin = a.inv.requestOrigin()
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
		speak = &model.LiveFrame{Turns: []*genai.Content{model.UserText(live.ContinueText)}, TurnComplete: true}
		if a.traits.RealtimeText {
			speak = &model.LiveFrame{Text: live.ContinueText}
		}
		a.turnOpen = true
	}
	a.out.Seed(frame, speak, time.Now())
}
