package openaiserver

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/textlive"
	"agenthost/pkg/session"
)

// Audio in an answer is what the agent's models have spoken: the app decides whether they speak, and in
// which voice. A client that sends the answer back may send only the audio's ID, which follows from the
// words, so that the session is found without an index.

// An audioRequest is the audio that a client accepts. The app decides the voice.
type audioRequest struct {
	Format string `json:"format"`
}

// audioKinds are the media types that answers in a format have. Samples become a file with the format wav.
var audioKinds = map[string][]string{
	"wav": {"audio/wav", "audio/x-wav", "audio/wave"}, "mp3": {"audio/mpeg", "audio/mp3"}, "flac": {"audio/flac"},
	"opus": {"audio/ogg", "audio/opus"}, "aac": {"audio/aac"}, "pcm16": pcmKinds,
}

var pcmKinds = []string{"audio/pcm", "audio/l16"}

// An answerAudio is audio on the wire.
type answerAudio struct {
	ID         string `json:"id"`
	Data       string `json:"data"`
	Expires    int64  `json:"expires_at"`
	Transcript string `json:"transcript"`
}

// newAudioID returns the ID of the audio that has the words of an answer.
func newAudioID(words string) string {
	sum := sha256.Sum256([]byte(normalizeText(words)))
	return "audio_" + hex.EncodeToString(sum[:16])
}

// listAudio returns the audio in an event.
func listAudio(ev *session.Event) []*genai.Blob {
	var all []*genai.Blob
	if ev.Content == nil || ev.Partial {
		return nil
	}
	for _, p := range ev.Content.Parts {
		if p != nil && p.InlineData != nil && strings.HasPrefix(p.InlineData.MIMEType, "audio/") {
			all = append(all, p.InlineData)
		}
	}
	return all
}

func readKind(mimeType string) (kind, parameters string) {
	kind, parameters, _ = strings.Cut(strings.ToLower(mimeType), ";")
	return strings.TrimSpace(kind), parameters
}

// encodeAudio returns audio in a format: files as they are, and samples one after the other.
func encodeAudio(all []*genai.Blob, format string) ([]byte, error) {
	kind, parameters := readKind(all[0].MIMEType)
	isPCM := slices.Contains(pcmKinds, kind)
	var data []byte
	for i, b := range all {
		other, _ := readKind(b.MIMEType)
		if other != kind || i > 0 && !isPCM {
			return nil, newRefusal("audio", "the answer has %d audio files, which do not fit together", len(all))
		}
		data = append(data, b.Data...)
	}
	switch {
	case slices.Contains(audioKinds[format], kind):
		return data, nil
	case isPCM && format == "wav":
		return textlive.EncodeWAV(data, parameters), nil
	}
	return nil, newRefusal("audio.format", "the answer's audio has the type %s, which cannot be sent as %s", kind, format)
}
