package live

import (
	"context"
	"strings"
	"sync"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/textlive"
)

// maxTapAudio is how much audio waits for a reader; the oldest is dropped.
const maxTapAudio = 30 * time.Second

// A Tap gives a tool the media that the user sends: the newest image, or all audio since the last
// call, at most the last 30 seconds, as a WAV file. It is safe for concurrent use.
type Tap struct {
	prefix string
	ready  chan struct{}

	mu       sync.Mutex
	mimeType string
	data     []byte
}

// NewTap returns a tap for "video", which is images, or for "audio".
func NewTap(media string) *Tap {
	t := &Tap{prefix: "image/", ready: make(chan struct{}, 1)}
	if media == "audio" {
		t.prefix = "audio/"
	}
	return t
}

// Offer adds media; other kinds are ignored. The blob is not modified.
func (t *Tap) Offer(b *genai.Blob) {
	if b == nil || !strings.HasPrefix(b.MIMEType, t.prefix) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, pcm := strings.CutPrefix(b.MIMEType, "audio/pcm"); pcm && t.mimeType == b.MIMEType {
		t.data = append(t.data, b.Data...)
		if over := len(t.data) - t.maxBytes(b); over > 0 {
			t.data = append([]byte(nil), t.data[over:]...)
		}
	} else {
		t.mimeType, t.data = b.MIMEType, append([]byte(nil), b.Data...)
	}
	select {
	case t.ready <- struct{}{}:
	default:
	}
}

// maxBytes returns how much audio may wait, in whole samples.
func (t *Tap) maxBytes(b *genai.Blob) int {
	perSecond := len(b.Data)
	if d := textlive.PCMDuration(b); d > 0 {
		perSecond = int(int64(len(b.Data)) * int64(time.Second) / int64(d))
	}
	return perSecond * int(maxTapAudio/time.Second) &^ 1
}

// Next waits for media that no earlier call has returned, or until ctx ends.
func (t *Tap) Next(ctx context.Context) (*genai.Blob, error) {
	for {
		if b := t.removeMedia(); b != nil {
			return b, nil
		}
		select {
		case <-t.ready:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (t *Tap) removeMedia() *genai.Blob {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mimeType == "" {
		return nil
	}
	b := &genai.Blob{MIMEType: t.mimeType, Data: t.data}
	t.mimeType, t.data = "", nil
	if parameters, ok := strings.CutPrefix(b.MIMEType, "audio/pcm"); ok {
		b = &genai.Blob{MIMEType: "audio/wav", Data: textlive.EncodeWAV(b.Data, parameters)}
	}
	return b
}
