package provider

import (
	"cmp"
	"context"
	"math"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/textlive"
	"agenthost/pkg/model"
)

// Live returns the script's live conversations: it answers texts as in other runs, and audio by the
// words in its transcript entries. It speaks with a tone for each word.
func (m *scriptedModel) Live() model.LiveLLM {
	return textlive.OverText(m, &textlive.OverTextOptions{
		Transcribe: m.transcribeEntry, Speak: speakTone, Wait: func(ctx context.Context, d time.Duration) error { return m.opts.Wait(ctx, d) },
	})
}

// Live returns the model's live conversations. Their calls are not repeated.
func (r *retryingModel) Live() model.LiveLLM { return model.LiveOf(r.LLM) }

// defaultTranscriptAfter is the default for [ScriptTranscript].After.
const defaultTranscriptAfter = 1500 * time.Millisecond

// transcribeEntry returns the next transcript entry's words if enough audio has arrived.
func (m *scriptedModel) transcribeEntry(origin model.Origin, audio time.Duration, ended bool) string {
	for i, e := range m.script.entries {
		if e.Transcript == nil || !m.used.hasLeft(origin, i, max(1, e.Times)) {
			continue
		}
		if audio < cmp.Or(time.Duration(e.Transcript.After), defaultTranscriptAfter) && !(ended && audio > 0) {
			return ""
		}
		m.used.countAnswer(origin, i, max(1, e.Times))
		return e.Transcript.Text.Value
	}
	return ""
}

// The script's voice.
const (
	toneRate  = 24000
	wordTime  = 240 * time.Millisecond
	toneLevel = 6000
)

// speakTone returns a short tone for a word. Its pitch depends on the word. It lasts as long as it
// takes to play.
func speakTone(word string) (audio *genai.Blob, pause time.Duration) {
	pitch := 0
	for _, c := range word {
		pitch += int(c)
	}
	frequency := 220 + float64(pitch%24)*15
	samples := int(wordTime.Seconds() * toneRate)
	data := make([]byte, 2*samples)
	for i := range samples {
		fade := math.Sin(math.Pi * float64(i) / float64(samples))
		v := int16(toneLevel * fade * math.Sin(2*math.Pi*frequency*float64(i)/toneRate))
		data[2*i], data[2*i+1] = byte(v), byte(v>>8)
	}
	return &genai.Blob{MIMEType: "audio/pcm;rate=24000", Data: data}, wordTime
}
