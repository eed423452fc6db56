package live

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/textlive"
)

// Recording bounds. A five-minute turn at 24 kHz fits.
const (
	maxTurnRecording = 16 << 20
	maxRunRecording  = 256 << 20
)

// A Recorder collects both sides' audio, turn by turn. It is for one goroutine.
type Recorder struct {
	input, output recording
	bytes         int
}

// A recording is one side's audio in a turn.
type recording struct {
	mimeType string
	data     []byte
	start    time.Time
	// spanned counts the bytes before the next span.
	spanned int
	// truncated reports that audio beyond the bounds, or with another type, was dropped.
	truncated bool
}

// A Span is part of a recording, from its start.
type Span struct{ Start, End time.Duration }

// A Recording is a file with one side's audio in a turn.
type Recording struct {
	// Name is the name that ADK gives such files, with an extension that players know.
	Name string
	// Blob is a WAV file, or audio in another format as it was sent.
	Blob *genai.Blob
	// Start is when its first chunk arrived.
	Start time.Time
	// Truncated reports that audio is missing: a turn has at most 16 MiB, a run 256 MiB, and each
	// chunk has the first chunk's type and sampling rate.
	Truncated bool
}

// AddInput adds the user's audio; other media is ignored.
func (r *Recorder) AddInput(b *genai.Blob, now time.Time) { r.addChunk(&r.input, b, now) }

// AddOutput adds the model's audio; other media is ignored.
func (r *Recorder) AddOutput(b *genai.Blob, now time.Time) { r.addChunk(&r.output, b, now) }

func (r *Recorder) addChunk(to *recording, b *genai.Blob, now time.Time) {
	if b == nil || !strings.HasPrefix(b.MIMEType, "audio/") {
		return
	}
	if len(to.data) == 0 {
		to.mimeType, to.start = b.MIMEType, now
	}
	if !sameAudio(to.mimeType, b.MIMEType) || len(to.data)+len(b.Data) > maxTurnRecording || r.bytes+len(b.Data) > maxRunRecording {
		to.truncated = true
		return
	}
	to.data = append(to.data, b.Data...)
	r.bytes += len(b.Data)
}

// sameAudio reports whether audio with both types fits into one file.
func sameAudio(first, other string) bool {
	a, pcm := strings.CutPrefix(first, "audio/pcm")
	b, otherPCM := strings.CutPrefix(other, "audio/pcm")
	if !pcm || !otherPCM {
		return first == other
	}
	rate, ok := textlive.PCMRate(a)
	otherRate, otherOK := textlive.PCMRate(b)
	return ok == otherOK && rate == otherRate
}

// SpanInput returns what was recorded from the user since the last span, or since
// [Recorder.SkipInput]. It is the zero value if there is none, or if the audio is not PCM.
func (r *Recorder) SpanInput() Span { return r.input.nextSpan() }

// SpanOutput returns what was recorded from the model since the last span, as SpanInput does.
func (r *Recorder) SpanOutput() Span { return r.output.nextSpan() }

// SkipInput begins the user's next span with the audio that follows.
func (r *Recorder) SkipInput() { r.input.spanned = len(r.input.data) }

func (r *recording) nextSpan() Span {
	if !strings.HasPrefix(r.mimeType, "audio/pcm") {
		return Span{}
	}
	span := Span{r.durationOf(r.spanned), r.durationOf(len(r.data))}
	r.spanned = len(r.data)
	return span
}

func (r *recording) durationOf(size int) time.Duration {
	return textlive.PCMDuration(&genai.Blob{MIMEType: r.mimeType, Data: r.data[:size]})
}

// RemoveInput returns the user's audio since the last call, or nil.
func (r *Recorder) RemoveInput() *Recording { return r.input.removeFile("input") }

// RemoveOutput returns the model's audio since the last call, or nil.
func (r *Recorder) RemoveOutput() *Recording { return r.output.removeFile("output") }

func (r *recording) removeFile(side string) *Recording {
	from := *r
	*r = recording{}
	if len(from.data) == 0 {
		return nil
	}
	f := &Recording{Start: from.start, Truncated: from.truncated}
	extension := "wav"
	if parameters, ok := strings.CutPrefix(from.mimeType, "audio/pcm"); ok {
		f.Blob = &genai.Blob{MIMEType: "audio/wav", Data: textlive.EncodeWAV(from.data, parameters)}
	} else {
		f.Blob = &genai.Blob{MIMEType: from.mimeType, Data: from.data}
		extension, _, _ = strings.Cut(strings.TrimPrefix(from.mimeType, "audio/"), ";")
	}
	f.Name = fmt.Sprintf("adk_live_audio_storage_%s_audio_%d.%s", side, from.start.UnixMilli(), extension)
	return f
}
