package gemini

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/adkjson"
	"agenthost/internal/limit"
	"agenthost/pkg/model"
)

// liveSetup is the first message on a connection, as the Live API defines it
// (BidiGenerateContentSetup).
type liveSetup struct {
	Model                    string                                `json:"model"`
	GenerationConfig         *liveGenerationConfig                 `json:"generationConfig,omitempty"`
	SystemInstruction        *genai.Content                        `json:"systemInstruction,omitempty"`
	Tools                    []*genai.Tool                         `json:"tools,omitempty"`
	RealtimeInputConfig      *genai.RealtimeInputConfig            `json:"realtimeInputConfig,omitempty"`
	SessionResumption        *genai.SessionResumptionConfig        `json:"sessionResumption,omitempty"`
	ContextWindowCompression *genai.ContextWindowCompressionConfig `json:"contextWindowCompression,omitempty"`
	InputAudioTranscription  *genai.AudioTranscriptionConfig       `json:"inputAudioTranscription,omitempty"`
	OutputAudioTranscription *genai.AudioTranscriptionConfig       `json:"outputAudioTranscription,omitempty"`
	Proactivity              *genai.ProactivityConfig              `json:"proactivity,omitempty"`
	ExplicitVADSignal        *bool                                 `json:"explicitVadSignal,omitempty"`
	AvatarConfig             *genai.AvatarConfig                   `json:"avatarConfig,omitempty"`
	HistoryConfig            *genai.HistoryConfig                  `json:"historyConfig,omitempty"`
}

type liveGenerationConfig struct {
	ResponseModalities    []genai.Modality         `json:"responseModalities,omitempty"`
	SpeechConfig          *genai.SpeechConfig      `json:"speechConfig,omitempty"`
	ThinkingConfig        *genai.ThinkingConfig    `json:"thinkingConfig,omitempty"`
	EnableAffectiveDialog *bool                    `json:"enableAffectiveDialog,omitempty"`
	TranslationConfig     *genai.TranslationConfig `json:"translationConfig,omitempty"`
}

func encodeLiveSetup(name string, s *model.LiveSetup) ([]byte, error) {
	wire := &liveSetup{
		Model: name, SystemInstruction: s.SystemInstruction, Tools: s.Tools,
		GenerationConfig: &liveGenerationConfig{
			ResponseModalities: s.Modalities, SpeechConfig: s.Speech, ThinkingConfig: s.Thinking,
			EnableAffectiveDialog: s.AffectiveDialog, TranslationConfig: s.Translation,
		},
		RealtimeInputConfig: s.RealtimeInput, SessionResumption: s.Resumption, ContextWindowCompression: s.Compression,
		InputAudioTranscription: s.InputTranscription, OutputAudioTranscription: s.OutputTranscription,
		Proactivity: s.Proactivity, ExplicitVADSignal: s.ExplicitVAD, AvatarConfig: s.Avatar, HistoryConfig: s.History,
	}
	return json.Marshal(map[string]*liveSetup{"setup": wire})
}

var errEmptyLiveFrame = errors.New("the frame for the live model is empty")

// appendLiveFrame appends a frame in the Live API's form. typed sends media in separate fields;
// models up to 2.5 get a list of chunks.
func appendLiveFrame(dst []byte, f *model.LiveFrame, typed bool) ([]byte, error) {
	switch {
	case f.Blob != nil:
		return appendLiveBlob(dst, f.Blob, typed), nil
	case f.ActivityStart:
		return append(dst, `{"realtimeInput":{"activityStart":{}}}`...), nil
	case f.ActivityEnd:
		return append(dst, `{"realtimeInput":{"activityEnd":{}}}`...), nil
	case f.AudioStreamEnd:
		return append(dst, `{"realtimeInput":{"audioStreamEnd":true}}`...), nil
	case f.Text != "":
		return appendJSON(dst, map[string]any{"realtimeInput": map[string]any{"text": f.Text}})
	case len(f.Responses) > 0:
		return appendJSON(dst, map[string]any{"toolResponse": map[string]any{"functionResponses": f.Responses}})
	case len(f.Turns) > 0:
		return appendJSON(dst, map[string]any{"clientContent": map[string]any{"turns": f.Turns, "turnComplete": f.TurnComplete}})
	}
	return dst, errEmptyLiveFrame
}

func appendJSON(dst []byte, v any) ([]byte, error) {
	text, err := json.Marshal(v)
	return append(dst, text...), err
}

func appendLiveBlob(dst []byte, b *genai.Blob, typed bool) []byte {
	w := &adkjson.Encoder{Buf: dst}
	w.OpenBracket('{')
	w.StartField("realtimeInput").OpenBracket('{')
	switch {
	case !typed:
		w.StartField("mediaChunks").OpenBracket('[')
	case strings.HasPrefix(b.MIMEType, "image/"):
		w.StartField("video")
	default:
		w.StartField("audio")
	}
	w.OpenBracket('{')
	w.StartField("mimeType").WriteString(b.MIMEType)
	w.StartField("data")
	w.Buf = append(w.Buf, '"')
	w.Buf = base64.StdEncoding.AppendEncode(w.Buf, b.Data)
	w.Buf = append(w.Buf, '"')
	w.CloseBracket('}')
	if !typed {
		w.CloseBracket(']')
	}
	w.CloseBracket('}')
	w.CloseBracket('}')
	return w.Buf
}

// A liveMessage is a decoded Live API message.
type liveMessage struct {
	model.LiveMessage
	setup   *liveSetupComplete
	failure *genai.APIError
	// hasContent reports that the message has anything for agents.
	hasContent bool
}

type liveSetupComplete struct {
	SessionID string `json:"sessionId"`
}

// liveKeys are the keys in a server message.
type liveKeys struct {
	SetupComplete           *liveSetupComplete
	ServerContent           *liveContent
	ToolCall                *liveToolCall
	ToolCallCancellation    *liveCancellation
	UsageMetadata           json.RawMessage
	GoAway                  *liveGoAway
	SessionResumptionUpdate *liveResumption
	VoiceActivity           *liveVoiceActivity
	Error                   *genai.APIError
}

type liveContent struct {
	ModelTurn           *genai.Content           `json:"modelTurn"`
	GenerationComplete  bool                     `json:"generationComplete"`
	TurnComplete        bool                     `json:"turnComplete"`
	Interrupted         bool                     `json:"interrupted"`
	TurnCompleteReason  string                   `json:"turnCompleteReason"`
	GroundingMetadata   *genai.GroundingMetadata `json:"groundingMetadata"`
	InputTranscription  *genai.Transcription     `json:"inputTranscription"`
	OutputTranscription *genai.Transcription     `json:"outputTranscription"`
}

type liveToolCall struct {
	FunctionCalls []*genai.FunctionCall `json:"functionCalls"`
}

type liveCancellation struct {
	IDs []string `json:"ids"`
}

type liveGoAway struct {
	TimeLeft time.Duration `json:"timeLeft"`
}

type liveResumption struct {
	NewHandle string          `json:"newHandle"`
	Resumable bool            `json:"resumable"`
	Index     json.RawMessage `json:"lastConsumedClientMessageIndex"`
}

type liveVoiceActivity struct {
	Type        string        `json:"type"`
	AudioOffset time.Duration `json:"audioOffset"`
}

// findKey returns the variable for a key, or nil.
func (k *liveKeys) findKey(name []byte) any {
	switch string(name) {
	case "setupComplete":
		return &k.SetupComplete
	case "serverContent":
		return &k.ServerContent
	case "toolCall":
		return &k.ToolCall
	case "toolCallCancellation":
		return &k.ToolCallCancellation
	case "usageMetadata":
		return &k.UsageMetadata
	case "goAway":
		return &k.GoAway
	case "sessionResumptionUpdate":
		return &k.SessionResumptionUpdate
	case "voiceActivity":
		return &k.VoiceActivity
	case "error":
		return &k.Error
	}
	return nil
}

// decodeLiveMessage decodes a Live API message, with keys in either spelling. The result does not
// alias the text. Unknown keys are ignored.
func decodeLiveMessage(text []byte) (*liveMessage, error) {
	if err := limit.LiveMessage.CheckJSON(text); err != nil {
		return nil, err
	}
	d := &adkjson.Decoder{Buf: text}
	var k liveKeys
	d.ReadFields(k.findKey, func(_, _ []byte) { d.SkipValue() })
	if err := d.CheckEnd(); err != nil {
		return nil, err
	}
	m := &liveMessage{setup: k.SetupComplete, failure: k.Error}
	m.hasContent = k.ServerContent != nil || k.ToolCall != nil || k.ToolCallCancellation != nil ||
		k.UsageMetadata != nil || k.GoAway != nil || k.SessionResumptionUpdate != nil || k.VoiceActivity != nil
	if c := k.ServerContent; c != nil {
		m.Content, m.Grounding = c.ModelTurn, c.GroundingMetadata
		m.GenerationComplete, m.TurnComplete, m.Interrupted = c.GenerationComplete, c.TurnComplete, c.Interrupted
		m.TurnCompleteReason = c.TurnCompleteReason
		m.InputTranscription, m.OutputTranscription = c.InputTranscription, c.OutputTranscription
	}
	if k.ToolCall != nil {
		m.Calls = k.ToolCall.FunctionCalls
	}
	if k.ToolCallCancellation != nil {
		m.CanceledCalls = k.ToolCallCancellation.IDs
	}
	if k.GoAway != nil {
		m.GoAway = &k.GoAway.TimeLeft
	}
	if v := k.VoiceActivity; v != nil {
		m.VoiceActivity = &genai.VoiceActivity{VoiceActivityType: genai.VoiceActivityType(v.Type), AudioOffset: v.AudioOffset}
	}
	return m, errors.Join(m.readUsage(k.UsageMetadata), m.readResumption(k.SessionResumptionUpdate))
}

// readUsage reads the tokens. The Gemini API names response tokens differently from Vertex AI and
// from other calls.
func (m *liveMessage) readUsage(text json.RawMessage) error {
	if text == nil {
		return nil
	}
	d := &adkjson.Decoder{Buf: text}
	m.Usage = &genai.GenerateContentResponseUsageMetadata{}
	d.ReadFields(func(name []byte) any {
		switch string(name) {
		case "responseTokenCount":
			return &m.Usage.CandidatesTokenCount
		case "responseTokensDetails":
			return &m.Usage.CandidatesTokensDetails
		}
		return adkjson.FieldPointer(m.Usage, name)
	}, func(_, _ []byte) { d.SkipValue() })
	if err := d.CheckEnd("usageMetadata"); err != nil {
		return err
	}
	return nil
}

// readResumption reads a handle. Its index is a number or a string.
func (m *liveMessage) readResumption(r *liveResumption) error {
	if r == nil {
		return nil
	}
	m.Resumption = &model.LiveResumption{NewHandle: r.NewHandle, Resumable: r.Resumable}
	if r.Index == nil {
		return nil
	}
	if err := json.Unmarshal([]byte(strings.Trim(string(r.Index), `"`)), &m.Resumption.LastConsumedClientMessageIndex); err != nil {
		return &adkjson.Error{Path: []any{"sessionResumptionUpdate", "lastConsumedClientMessageIndex"}, Message: "expected a whole number"}
	}
	return nil
}
