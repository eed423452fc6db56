package textlive

import (
	"strings"
	"time"

	"google.golang.org/genai"
)

// DefaultSampleRate is the sampling rate for audio whose MIME type has none.
const DefaultSampleRate = 16000

// maxPCMRate is the rate above which [PCMRate] reads no more digits.
const maxPCMRate = 48000

// PCMRate reads the sampling rate from a MIME type's parameters, such as ";rate=16000":
// [DefaultSampleRate] without one. ok is false for a rate that is not a number or far too high.
func PCMRate(parameters string) (rate int, ok bool) {
	rate = DefaultSampleRate
	for p := range strings.SplitSeq(parameters, ";") {
		value, found := strings.CutPrefix(strings.TrimSpace(p), "rate=")
		if !found {
			continue
		}
		rate = 0
		for _, c := range []byte(value) {
			if c < '0' || c > '9' || rate > maxPCMRate {
				return 0, false
			}
			rate = rate*10 + int(c-'0')
		}
	}
	return rate, true
}

// PCMDuration returns the duration of 16-bit audio.
func PCMDuration(b *genai.Blob) time.Duration {
	_, parameters, _ := strings.Cut(b.MIMEType, ";")
	rate, ok := PCMRate(parameters)
	if !ok || rate == 0 {
		rate = DefaultSampleRate
	}
	return time.Duration(len(b.Data)/2) * time.Second / time.Duration(rate)
}
