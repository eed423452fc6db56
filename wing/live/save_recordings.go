package live

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// locateTranscript sets a final transcript's place in its speaker's recording, unless the service
// has set it: what was recorded since the last transcript, because services send no times with
// transcripts.
func (a *liveAgent) locateTranscript(response *model.Response) {
	if a.recorder == nil || response.Partial {
		return
	}
	locate := func(t *genai.Transcription, next func() Span) {
		if t == nil || t.StartOffset != 0 || t.EndOffset != 0 {
			return
		}
		span := next()
		t.StartOffset, t.EndOffset = span.Start.Truncate(time.Millisecond), span.End.Truncate(time.Millisecond)
	}
	locate(response.InputTranscription, a.recorder.SpanInput)
	locate(response.OutputTranscription, a.recorder.SpanOutput)
}

// saveOpenRecordings saves the audio of a turn that is open when the conversation ends.
func (a *liveAgent) saveOpenRecordings(ctx context.Context) {
	if a.recorder != nil && !a.IsDone() && ctx.Err() == nil && a.saveRecording(ctx, a.recorder.RemoveInput(), session.UserAuthor, genai.RoleUser) {
		a.saveRecording(ctx, a.recorder.RemoveOutput(), a.Agent().Name(), genai.RoleModel)
	}
}

// saveRecordings saves the turn's audio as artifacts, each with an event from its speaker, before
// the event that ends the turn. An interruption ends only the model's speech (adk-python
// flows/llm_flows/audio_cache_manager.py).
func (a *liveAgent) saveRecordings(ctx context.Context, response *model.Response) bool {
	if a.recorder == nil || !response.TurnComplete && !response.Interrupted {
		return true
	}
	if response.TurnComplete && !a.saveRecording(ctx, a.recorder.RemoveInput(), session.UserAuthor, genai.RoleUser) {
		return false
	}
	return a.saveRecording(ctx, a.recorder.RemoveOutput(), a.Agent().Name(), genai.RoleModel)
}

// saveRecording saves a recording and yields its event. Without it the conversation
// continues: a failure is logged.
func (a *liveAgent) saveRecording(ctx context.Context, r *Recording, author, role string) bool {
	if r == nil {
		return true
	}
	key := a.Session().Key
	var actions session.Actions
	version, err := a.OpenArtifacts(&actions).Save(ctx, r.Name, &genai.Part{InlineData: r.Blob})
	if err != nil {
		a.RunLogger().Warn("saving a recording failed", "app", key.App, "session", key.ID, "artifact", r.Name, "error", err)
		return true
	}
	if r.Truncated {
		a.RunLogger().Warn("a recording was truncated", "app", key.App, "session", key.ID, "artifact", r.Name)
	}
	ev := a.NewEvent()
	ev.Author, ev.Timestamp = author, r.Start
	ev.Actions.ArtifactDelta = actions.ArtifactDelta
	uri := fmt.Sprintf("artifact://apps/%s/users/%s/sessions/%s/artifacts/%s/versions/%d", key.App, key.User, key.ID, r.Name, version)
	ev.Content = &genai.Content{Role: role, Parts: []*genai.Part{{FileData: &genai.FileData{FileURI: uri, MIMEType: r.Blob.MIMEType}}}}
	return a.Commit(ev)
}
