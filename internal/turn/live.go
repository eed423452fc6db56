package turn

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/wing/live"
)

// RunLive sends one message in a live conversation, and yields events as [runtime.Host.Run]
// does. The conversation ends when the model has completed its turn, or when a call waits
// for the user. The transcript of speech is its content, and its audio is not yielded.
func RunLive(ctx context.Context, host *runtime.Host, req *runtime.RunRequest) runtime.Events {
	return func(yield func(*session.Event, error) bool) {
		requests := live.NewQueue()
		defer requests.Close()
		if err := requests.Send(ctx, &live.Request{Content: req.Message, StateDelta: req.StateDelta}); err != nil {
			yield(nil, err)
			return
		}
		events := host.Live(ctx, &runtime.LiveRequest{
			App: req.App, UserID: req.UserID, SessionID: req.SessionID, Requests: requests, Writer: req.Writer,
		})
		for ev, err := range events {
			if err == nil && (ev.TurnComplete || len(ev.LongRunningToolIDs) > 0) {
				requests.Close()
			}
			if err == nil && isSpeech(ev) {
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

// isSpeech reports whether an event has only audio, which the session does not store.
func isSpeech(ev *session.Event) bool {
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
