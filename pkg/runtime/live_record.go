package runtime

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/wing/live"
)

// recordOutput records the audio of a response.
func (a *liveAgent) recordOutput(response *model.Response) {
	if a.recorder == nil || response.Content == nil {
		return
	}
	for _, p := range response.Content.Parts {
		a.recorder.AddOutput(p.InlineData, a.host.now())
	}
}

// locateTranscript sets where in the recording of its speaker a final transcript is, unless
// the service has set it: what was recorded since the last transcript, because services send
// no times with transcripts.
func (a *liveAgent) locateTranscript(response *model.Response) {
	if a.recorder == nil || response.Partial {
		return
	}
	locate := func(t *genai.Transcription, next func() live.Span) {
		if t == nil || t.StartOffset != 0 || t.EndOffset != 0 {
			return
		}
		span := next()
		t.StartOffset, t.EndOffset = span.Start.Truncate(time.Millisecond), span.End.Truncate(time.Millisecond)
	}
	locate(response.InputTranscription, a.recorder.SpanInput)
	locate(response.OutputTranscription, a.recorder.SpanOutput)
}

// saveOpenRecordings saves the audio of a turn that the end of the conversation leaves open.
func (a *liveAgent) saveOpenRecordings(ctx context.Context) {
	if a.recorder != nil && !a.done && ctx.Err() == nil && a.saveRecording(ctx, a.recorder.RemoveInput(), session.UserAuthor, genai.RoleUser) {
		a.saveRecording(ctx, a.recorder.RemoveOutput(), a.agent.AgentName, genai.RoleModel)
	}
}

// saveRecordings saves the audio of the turn as artifacts, each with an event of its
// speaker, before the event that ends the turn. An interruption ends only the speech of the
// model (adk-python flows/llm_flows/audio_cache_manager.py).
func (a *liveAgent) saveRecordings(ctx context.Context, response *model.Response) bool {
	if a.recorder == nil || !response.TurnComplete && !response.Interrupted {
		return true
	}
	if response.TurnComplete && !a.saveRecording(ctx, a.recorder.RemoveInput(), session.UserAuthor, genai.RoleUser) {
		return false
	}
	return a.saveRecording(ctx, a.recorder.RemoveOutput(), a.agent.AgentName, genai.RoleModel)
}

// saveRecording saves a recording and yields its event. Without it the conversation
// continues: a failure is logged.
func (a *liveAgent) saveRecording(ctx context.Context, r *live.Recording, author, role string) bool {
	if r == nil {
		return true
	}
	key := a.sess.Key
	version, err := a.host.store.Artifacts.Save(ctx, key, r.Name, &genai.Part{InlineData: r.Blob})
	if err != nil {
		a.logger().Warn("saving a recording failed", "app", key.App, "session", key.ID, "artifact", r.Name, "error", err)
		return true
	}
	if r.Truncated {
		a.logger().Warn("a recording was truncated", "app", key.App, "session", key.ID, "artifact", r.Name)
	}
	ev := a.inv.NewEvent()
	ev.Author, ev.Timestamp = author, r.Start
	ev.Actions.SetArtifact(r.Name, version)
	uri := fmt.Sprintf("artifact://apps/%s/users/%s/sessions/%s/artifacts/%s/versions/%d", key.App, key.User, key.ID, r.Name, version)
	ev.Content = &genai.Content{Role: role, Parts: []*genai.Part{{FileData: &genai.FileData{FileURI: uri, MIMEType: r.Blob.MIMEType}}}}
	return a.emitEvent(ev, nil)
}

// isAudioReference reports whether a part refers to a recording, which models do not read: they
// read its transcript.
func isAudioReference(p *genai.Part) bool {
	return isAudioPart(p) && strings.HasPrefix(p.FileData.FileURI, "artifact://")
}
