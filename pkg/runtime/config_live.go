package runtime

import (
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

// checkLive reports settings of live runs that a model's service refuses after the user
// has begun to speak, and those without effect.
func (c *RunConfig) checkLive(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	if problem := c.checkModality(); problem != "" && (c.StreamingMode == StreamingBidi || c.SupportCFC) {
		ds = append(ds, n.Get("response_modalities").Errorf("run-config", "%s", problem))
	}
	for _, key := range []string{"input_audio_transcription", "output_audio_transcription"} {
		if at := n.Get(key); at != nil && at.IsNull() {
			ds = append(ds, at.Warnf("run-config", "null has no effect: transcripts are always on, because sessions store them"))
		}
	}
	if k := c.ContextWindowCompression; k != nil && k.TriggerTokens != nil && k.SlidingWindow != nil && k.SlidingWindow.TargetTokens != nil &&
		*k.SlidingWindow.TargetTokens >= *k.TriggerTokens {
		ds = append(ds, n.Get("context_window_compression").Errorf("run-config",
			"target_tokens %d must be less than trigger_tokens %d", *k.SlidingWindow.TargetTokens, *k.TriggerTokens))
	}
	if at := n.Get("live"); at != nil {
		ds = append(ds, c.Live.checkLimits(at)...)
	}
	return append(ds, c.checkDetection(n)...)
}

// checkModality returns the problem of several modalities in a live run, or "".
func (c *RunConfig) checkModality() string {
	if len(c.ResponseModalities) < 2 {
		return ""
	}
	return "a live model answers in one modality, got " + strings.Join(c.ResponseModalities, ", ")
}

// checkDetection rejects negative times of the detection of speech.
func (c *RunConfig) checkDetection(n *spec.Node) spec.Diagnostics {
	if c.RealtimeInputConfig == nil || c.RealtimeInputConfig.AutomaticActivityDetection == nil {
		return nil
	}
	d := c.RealtimeInputConfig.AutomaticActivityDetection
	at := getAnySpelling(n.Get("realtime_input_config"), "automatic_activity_detection")
	var ds spec.Diagnostics
	if d.PrefixPaddingMs != nil && *d.PrefixPaddingMs < 0 {
		ds = append(ds, getAnySpelling(at, "prefix_padding_ms").Errorf("run-config", "prefix_padding_ms must be 0 or more, got %d", *d.PrefixPaddingMs))
	}
	if d.SilenceDurationMs != nil && *d.SilenceDurationMs < 0 {
		ds = append(ds, getAnySpelling(at, "silence_duration_ms").Errorf("run-config", "silence_duration_ms must be 0 or more, got %d", *d.SilenceDurationMs))
	}
	return ds
}

// liveSetup returns the setup of a live connection: the settings of the request that the
// Live API has, and those of the run (adk-python flows/llm_flows/basic.py).
func (c *RunConfig) liveSetup(req *model.Request, traits model.LiveTraits) *model.LiveSetup {
	s := &model.LiveSetup{
		Model: req.Model, SystemInstruction: req.Config.SystemInstruction, Tools: req.Config.Tools,
		Thinking: req.Config.ThinkingConfig, Speech: req.Config.SpeechConfig,
		InputTranscription: c.InputAudioTranscription, OutputTranscription: c.OutputAudioTranscription,
		RealtimeInput: c.RealtimeInputConfig, Resumption: c.SessionResumption, Compression: c.ContextWindowCompression,
		Proactivity: c.Proactivity, AffectiveDialog: c.EnableAffectiveDialog, Avatar: c.AvatarConfig,
		ExplicitVAD: c.ExplicitVADSignal, Translation: c.TranslationConfig, History: c.HistoryConfig,
	}
	if s.InputTranscription == nil {
		s.InputTranscription = &genai.AudioTranscriptionConfig{}
	}
	if s.OutputTranscription == nil {
		s.OutputTranscription = &genai.AudioTranscriptionConfig{}
	}
	if traits.NoDialogOptions {
		s.Proactivity, s.AffectiveDialog = nil, nil
	}
	for _, m := range c.ResponseModalities {
		s.Modalities = append(s.Modalities, genai.Modality(m))
	}
	if len(s.Modalities) == 0 {
		s.Modalities = []genai.Modality{genai.ModalityAudio}
	}
	return s
}

// liveContents returns the history without audio, which the Live API does not accept in
// contents (adk-python flows/llm_flows/contents.py).
func liveContents(contents []*genai.Content) []*genai.Content {
	kept := make([]*genai.Content, 0, len(contents))
	for _, c := range contents {
		if !slices.ContainsFunc(c.Parts, isAudioPart) {
			kept = append(kept, c)
			continue
		}
		without := *c
		without.Parts = slices.DeleteFunc(slices.Clone(c.Parts), isAudioPart)
		if len(without.Parts) > 0 {
			kept = append(kept, &without)
		}
	}
	return kept
}

func isAudioPart(p *genai.Part) bool {
	return p.InlineData != nil && strings.HasPrefix(p.InlineData.MIMEType, "audio/") ||
		p.FileData != nil && strings.HasPrefix(p.FileData.MIMEType, "audio/")
}
