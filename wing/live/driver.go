package live

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// Driver is the apps' [runtime.LiveDriver]: their agents answer over live connections
// (support_cfc), and tests and evaluations hold conversations with them.
type Driver struct{}

var _ runtime.LiveDriver = Driver{}

// NewGenerator returns a generator for a model's live API, or nil.
func (Driver) NewGenerator(llm model.LLM, config *runtime.RunConfig) runtime.LiveGenerator {
	liveLLM := model.LiveOf(llm)
	if liveLLM == nil {
		return nil
	}
	return NewGenerator(liveLLM, func(req *model.Request) *model.LiveSetup { return newGeneratorSetup(config, req) })
}

// newGeneratorSetup returns one agent's connection setup: its answers are text unless the run asks
// for speech, and the model can execute code that calls functions.
func newGeneratorSetup(c *runtime.RunConfig, req *model.Request) *model.LiveSetup {
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

// RunMessage sends one message in a live conversation, and yields events as [runtime.Host.Run]
// does. The conversation ends when the model has completed its turn, or when a call waits for the
// user. Speech yields its transcript as content, and no audio.
func (Driver) RunMessage(ctx context.Context, host *runtime.Host, req *runtime.RunRequest) runtime.Events {
	return func(yield func(*session.Event, error) bool) {
		requests := NewQueue()
		defer requests.Close()
		if err := requests.Send(ctx, &Request{Content: req.Message, StateDelta: req.StateDelta}); err != nil {
			yield(nil, err)
			return
		}
		events := Run(ctx, host, &RunRequest{
			App: req.App, UserID: req.UserID, SessionID: req.SessionID, Requests: requests, Writer: req.Writer,
		})
		for ev, err := range events {
			if err == nil && (ev.TurnComplete || len(ev.LongRunningToolIDs) > 0) {
				requests.Close()
			}
			if err == nil && holdsOnlySpeech(ev) {
				continue
			}
			if err == nil {
				ev = withSpokenContent(ev)
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

// holdsOnlySpeech reports whether an event has only audio, which the session does not store.
func holdsOnlySpeech(ev *session.Event) bool {
	if ev.Content == nil || len(ev.Content.Parts) == 0 || ev.TurnComplete {
		return false
	}
	return !slices.ContainsFunc(ev.Content.Parts, func(p *genai.Part) bool {
		return p.InlineData == nil || !strings.HasPrefix(p.InlineData.MIMEType, "audio/")
	})
}

// withSpokenContent returns an event whose content is its final transcript, or ev itself.
func withSpokenContent(ev *session.Event) *session.Event {
	spoken := ev.OutputTranscription
	if ev.Partial || ev.Content != nil || spoken == nil || spoken.Text == "" {
		return ev
	}
	own := *ev
	own.Content = genai.NewContentFromText(spoken.Text, genai.RoleModel)
	return &own
}
