package textlive

import (
	"encoding/binary"
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

// EncodeWAV returns a WAV file with 16-bit mono samples; their media type's parameters name the
// rate (RIFF WAVE, PCM).
func EncodeWAV(samples []byte, parameters string) []byte {
	rate, ok := PCMRate(parameters)
	if !ok || rate == 0 {
		rate = DefaultSampleRate
	}
	const headerBytes, pcmFormat, channels, bytesPerSample = 44, 1, 1, 2
	f := make([]byte, 0, headerBytes+len(samples))
	f = append(f, "RIFF"...)
	f = binary.LittleEndian.AppendUint32(f, uint32(headerBytes-8+len(samples)))
	f = append(f, "WAVEfmt "...)
	f = binary.LittleEndian.AppendUint32(f, 16)
	f = binary.LittleEndian.AppendUint16(f, pcmFormat)
	f = binary.LittleEndian.AppendUint16(f, channels)
	f = binary.LittleEndian.AppendUint32(f, uint32(rate))
	f = binary.LittleEndian.AppendUint32(f, uint32(rate*channels*bytesPerSample))
	f = binary.LittleEndian.AppendUint16(f, channels*bytesPerSample)
	f = binary.LittleEndian.AppendUint16(f, 8*bytesPerSample)
	f = append(f, "data"...)
	f = binary.LittleEndian.AppendUint32(f, uint32(len(samples)))
	return append(f, samples...)
}
