package live_test

import (
	"encoding/binary"
	"testing"
	"time"

	"google.golang.org/genai"

	"agenthost/wing/live"
)

// A recording is a WAV file: its header has the samples' rate, size and format.
func TestRecorder(t *testing.T) {
	var r live.Recorder
	start := time.UnixMilli(1234)
	r.AddInput(&genai.Blob{MIMEType: "audio/pcm;rate=16000", Data: []byte{1, 0, 2, 0}}, start)
	r.AddInput(&genai.Blob{MIMEType: "image/jpeg", Data: []byte{0xff}}, start)
	r.AddInput(&genai.Blob{MIMEType: "audio/pcm;rate=16000", Data: []byte{3, 0}}, start.Add(time.Second))
	f := r.RemoveInput()
	if f.Name != "adk_live_audio_storage_input_audio_1234.wav" || f.Blob.MIMEType != "audio/wav" || !f.Start.Equal(start) || f.Truncated {
		t.Errorf("%+v", f)
	}
	header := f.Blob.Data[:44]
	u32 := func(at int) uint32 { return binary.LittleEndian.Uint32(header[at:]) }
	if string(header[:4]) != "RIFF" || u32(4) != 36+6 || u32(24) != 16000 || u32(28) != 32000 || header[34] != 16 || u32(40) != 6 {
		t.Errorf("header % x", header)
	}
	if string(f.Blob.Data[44:]) != "\x01\x00\x02\x00\x03\x00" {
		t.Errorf("samples % x", f.Blob.Data[44:])
	}
	if r.RemoveInput() != nil || r.RemoveOutput() != nil {
		t.Error("a turn without audio has a recording")
	}
}

// Audio other than PCM is saved as it is, and a recording is bounded.
func TestRecorderBounds(t *testing.T) {
	var r live.Recorder
	for range 20 {
		r.AddOutput(&genai.Blob{MIMEType: "audio/opus", Data: make([]byte, 1<<20)}, time.UnixMilli(1))
	}
	f := r.RemoveOutput()
	if len(f.Blob.Data) != 16<<20 || !f.Truncated || f.Blob.MIMEType != "audio/opus" || f.Name != "adk_live_audio_storage_output_audio_1.opus" {
		t.Errorf("%d bytes, truncated %v, %s %s", len(f.Blob.Data), f.Truncated, f.Blob.MIMEType, f.Name)
	}
}

// A span is what was recorded since the last one. Audio at another rate is not mixed in.
func TestRecorderSpans(t *testing.T) {
	var r live.Recorder
	second := &genai.Blob{MIMEType: "audio/pcm;rate=8000", Data: make([]byte, 16000)}
	add := func(b *genai.Blob) { r.AddInput(b, time.UnixMilli(1)) }
	if got := r.SpanInput(); got != (live.Span{}) {
		t.Errorf("span without audio: %v", got)
	}
	add(second)
	if got := r.SpanInput(); got != (live.Span{End: time.Second}) {
		t.Errorf("first span: %v", got)
	}
	add(second)
	r.SkipInput()
	add(second)
	add(&genai.Blob{MIMEType: "audio/pcm;rate=16000", Data: make([]byte, 16000)})
	if got := r.SpanInput(); got != (live.Span{Start: 2 * time.Second, End: 3 * time.Second}) {
		t.Errorf("second span: %v", got)
	}
	if f := r.RemoveInput(); len(f.Blob.Data) != 44+3*16000 || !f.Truncated {
		t.Errorf("%d bytes, truncated %v", len(f.Blob.Data), f.Truncated)
	}
	r.AddOutput(&genai.Blob{MIMEType: "audio/opus", Data: make([]byte, 100)}, time.UnixMilli(1))
	if got := r.SpanOutput(); got != (live.Span{}) {
		t.Errorf("span of Opus: %v", got)
	}
}
