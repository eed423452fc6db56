package live

import (
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/model"
)

// Receiver bounds, for models that never complete a turn. Beyond them, texts and transcripts
// continue in further responses, calls do not wait for the turn's end, and grounding is not merged.
const (
	maxOpenText  = 256 << 10
	maxOpenCalls = 1000
	maxGrounding = 10_000
)

// A Receiver turns one connection's messages into responses (adk-python
// models/gemini_llm_connection.py receive). It is for one goroutine.
type Receiver struct {
	traits             model.LiveTraits
	version, sessionID string
	// input and output are the user's and the model's open transcripts.
	input, output []byte
	turn          turn
}

// A turn is what the model has sent since it last completed one.
type turn struct {
	// text was sent in chunks and is not yet complete; thought reports that it is one.
	text    []byte
	thought bool
	// calls are complete, but wait for the turn's end.
	calls         []*genai.FunctionCall
	callGrounding *genai.GroundingMetadata
	grounding     *genai.GroundingMetadata
	// generated reports that only the turn's end is missing.
	generated bool
}

// NewReceiver returns a new connection's receiver. version is the model's name in responses,
// sessionID the model's ID for the connection.
func NewReceiver(traits model.LiveTraits, version, sessionID string) *Receiver {
	return &Receiver{traits: traits, version: version, sessionID: sessionID}
}

// Receive returns the responses to a message, in order. Partial responses and those with
// media are for the client only; all others are also stored.
func (r *Receiver) Receive(m *model.LiveMessage) []*model.Response {
	var out responses
	if m.Usage != nil {
		out.addResponse(&model.Response{
			UsageMetadata: m.Usage, CustomMetadata: m.CustomMetadata, ModelVersion: r.version, LiveSessionID: r.sessionID,
		})
	}
	r.receiveContent(m, &out)
	r.receiveTranscripts(m, &out)
	r.turn.generated = r.turn.generated || m.GenerationComplete
	switch {
	case m.TurnComplete:
		r.completeTurn(m, &out)
	case m.Interrupted:
		r.interruptTurn(m, &out)
	}
	if len(m.Calls) > 0 {
		r.receiveCalls(m.Calls, &out)
	}
	if m.Resumption != nil {
		out.addResponse(&model.Response{Resumption: m.Resumption})
	}
	if m.VoiceActivity != nil {
		out.addResponse(&model.Response{VoiceActivity: m.VoiceActivity})
	}
	return out
}

// Flush returns what a connection that has ended left open: text, transcripts and calls.
// The text and the transcripts are marked as interrupted; a turn that was generated completely
// ends. The receiver is empty afterwards.
func (r *Receiver) Flush() []*model.Response {
	var out responses
	if len(r.input) > 0 {
		out.addResponse(finalTranscript(string(r.input), true))
	}
	if len(r.output) > 0 {
		last := finalTranscript(string(r.output), false)
		last.Interrupted = true
		out.addResponse(last)
	}
	if len(r.turn.text) > 0 {
		r.addMergedText(&out, !r.turn.generated, nil)
	}
	if len(r.turn.calls) > 0 {
		out.addResponse(r.newCallResponse(r.turn.calls, r.turn.callGrounding))
	}
	if r.turn.generated {
		out.addResponse(&model.Response{TurnComplete: true, ModelVersion: r.version, LiveSessionID: r.sessionID})
	}
	r.input, r.output, r.turn = nil, nil, turn{}
	return out
}

type responses []*model.Response

func (out *responses) addResponse(r *model.Response) { *out = append(*out, r) }

func (r *Receiver) receiveContent(m *model.LiveMessage, out *responses) {
	own := m.Grounding
	if own != nil {
		r.turn.grounding = mergeGrounding(r.turn.grounding, own)
		shown := *own // with the turn's string lists, as ADK sends it
		shown.ImageSearchQueries = r.turn.grounding.ImageSearchQueries
		shown.RetrievalQueries = r.turn.grounding.RetrievalQueries
		shown.WebSearchQueries = r.turn.grounding.WebSearchQueries
		own = &shown
	}
	if m.Content == nil || len(m.Content.Parts) == 0 {
		if own != nil && !m.TurnComplete {
			out.addResponse(&model.Response{GroundingMetadata: own, ModelVersion: r.version, LiveSessionID: r.sessionID})
		}
		return
	}
	resp := &model.Response{
		Content: m.Content, Interrupted: m.Interrupted, TurnCompleteReason: m.TurnCompleteReason,
		ModelVersion: r.version, LiveSessionID: r.sessionID,
	}
	if !m.TurnComplete {
		resp.GroundingMetadata = own
	}
	// Like ADK, the first part decides what the content is.
	switch first := m.Content.Parts[0]; {
	case first.Text != "":
		if len(r.turn.text) > 0 && (r.turn.thought != first.Thought || len(r.turn.text)+len(first.Text) > maxOpenText) {
			r.addMergedText(out, false, nil)
		}
		r.turn.text = append(r.turn.text, first.Text...)
		r.turn.thought = first.Thought
		resp.Partial = true
	case len(r.turn.text) > 0 && first.InlineData == nil:
		r.addMergedText(out, false, r.removeGrounding())
	}
	out.addResponse(resp)
}

// addMergedText adds the text from all chunks so far.
func (r *Receiver) addMergedText(out *responses, interrupted bool, grounding *genai.GroundingMetadata) {
	out.addResponse(&model.Response{
		Content: &genai.Content{
			Role: genai.RoleModel, Parts: []*genai.Part{{Text: string(r.turn.text), Thought: r.turn.thought}},
		},
		Interrupted: interrupted, GroundingMetadata: grounding, LiveSessionID: r.sessionID,
	})
	r.turn.text, r.turn.thought = nil, false
}

func (r *Receiver) removeGrounding() *genai.GroundingMetadata {
	g := r.turn.grounding
	r.turn.grounding = nil
	return g
}

func (r *Receiver) receiveTranscripts(m *model.LiveMessage, out *responses) {
	if t := m.InputTranscription; t != nil {
		if r.traits.WholeTranscripts {
			if t.Text != "" {
				out.addResponse(finalTranscript(t.Text, true))
			}
		} else {
			r.input = addTranscript(r.input, t, true, out)
		}
	}
	if t := m.OutputTranscription; t != nil {
		r.output = addTranscript(r.output, t, false, out)
	}
	if m.Interrupted || m.TurnComplete || m.GenerationComplete {
		if len(r.input) > 0 {
			out.addResponse(finalTranscript(string(r.input), true))
		}
		if len(r.output) > 0 {
			out.addResponse(finalTranscript(string(r.output), false))
		}
		r.input, r.output = nil, nil
	}
}

// addTranscript adds a chunk to an open transcript, and returns the transcript.
func addTranscript(open []byte, t *genai.Transcription, fromUser bool, out *responses) []byte {
	if t.Text != "" {
		if len(open) > 0 && len(open)+len(t.Text) > maxOpenText {
			out.addResponse(finalTranscript(string(open), fromUser))
			open = nil
		}
		open = append(open, t.Text...)
		chunk := *t
		chunk.Finished = false
		out.addResponse(newTranscript(&chunk, fromUser, true))
	}
	if t.Finished {
		out.addResponse(finalTranscript(string(open), fromUser))
		open = nil
	}
	return open
}

func finalTranscript(text string, fromUser bool) *model.Response {
	return newTranscript(&genai.Transcription{Text: text, Finished: true}, fromUser, false)
}

func newTranscript(t *genai.Transcription, fromUser, partial bool) *model.Response {
	resp := &model.Response{Partial: partial}
	if fromUser {
		resp.InputTranscription = t
	} else {
		resp.OutputTranscription = t
	}
	return resp
}

// completeTurn adds what is open, and ends the turn.
func (r *Receiver) completeTurn(m *model.LiveMessage, out *responses) {
	grounding := r.removeGrounding()
	if len(r.turn.text) > 0 {
		r.addMergedText(out, m.Interrupted, grounding)
		grounding = nil
	}
	if len(r.turn.calls) > 0 {
		out.addResponse(r.newCallResponse(r.turn.calls, r.turn.callGrounding))
	}
	if grounding == nil && r.traits.ExecutesCallsAtOnce {
		grounding = &genai.GroundingMetadata{}
	}
	out.addResponse(&model.Response{
		TurnComplete: true, Interrupted: m.Interrupted, TurnCompleteReason: m.TurnCompleteReason,
		GroundingMetadata: grounding, ModelVersion: r.version, LiveSessionID: r.sessionID,
	})
	r.turn = turn{}
}

func (r *Receiver) interruptTurn(m *model.LiveMessage, out *responses) {
	if len(r.turn.text) > 0 {
		r.addMergedText(out, true, r.removeGrounding())
		return
	}
	if m.Content != nil && len(m.Content.Parts) > 0 {
		return // the content's response is marked
	}
	out.addResponse(&model.Response{
		Interrupted: true, GroundingMetadata: r.removeGrounding(), ModelVersion: r.version, LiveSessionID: r.sessionID,
	})
}

func (r *Receiver) receiveCalls(calls []*genai.FunctionCall, out *responses) {
	if len(r.turn.text) > 0 {
		r.addMergedText(out, false, r.removeGrounding())
	}
	if r.traits.ExecutesCallsAtOnce {
		out.addResponse(r.newCallResponse(calls, r.removeGrounding()))
		return
	}
	if len(r.turn.calls) == 0 {
		r.turn.callGrounding = r.removeGrounding()
	}
	r.turn.calls = append(r.turn.calls, calls...)
	if len(r.turn.calls) > maxOpenCalls {
		out.addResponse(r.newCallResponse(r.turn.calls, r.turn.callGrounding))
		r.turn.calls = nil
	}
}

func (r *Receiver) newCallResponse(calls []*genai.FunctionCall, grounding *genai.GroundingMetadata) *model.Response {
	content := &genai.Content{Role: genai.RoleModel}
	for _, c := range calls {
		content.Parts = append(content.Parts, &genai.Part{FunctionCall: c})
	}
	return &model.Response{
		Content: content, GroundingMetadata: grounding, ModelVersion: r.version, LiveSessionID: r.sessionID,
	}
}

// mergeGrounding merges one more message's grounding into the turn's: string lists without repeats,
// chunks appended, supports with shifted chunk indices, and other fields replaced.
func mergeGrounding(before, more *genai.GroundingMetadata) *genai.GroundingMetadata {
	switch {
	case before == nil:
		return more
	case countGrounding(before) > maxGrounding:
		return before
	}
	merged := *before
	overlayGrounding(&merged, more)
	merged.ImageSearchQueries = appendNew(before.ImageSearchQueries, more.ImageSearchQueries)
	merged.RetrievalQueries = appendNew(before.RetrievalQueries, more.RetrievalQueries)
	merged.WebSearchQueries = appendNew(before.WebSearchQueries, more.WebSearchQueries)
	merged.GroundingChunks = slices.Concat(before.GroundingChunks, more.GroundingChunks)
	merged.GroundingSupports = slices.Clip(before.GroundingSupports)
	for _, s := range more.GroundingSupports {
		shifted := *s
		shifted.GroundingChunkIndices = slices.Clone(s.GroundingChunkIndices)
		for i := range shifted.GroundingChunkIndices {
			shifted.GroundingChunkIndices[i] += int32(len(before.GroundingChunks))
		}
		merged.GroundingSupports = append(merged.GroundingSupports, &shifted)
	}
	return &merged
}

func countGrounding(g *genai.GroundingMetadata) int {
	return len(g.ImageSearchQueries) + len(g.RetrievalQueries) + len(g.WebSearchQueries) + len(g.GroundingChunks) + len(g.GroundingSupports)
}

// overlayGrounding replaces the single fields that the message sets.
func overlayGrounding(g, more *genai.GroundingMetadata) {
	if more.GoogleMapsWidgetContextToken != "" {
		g.GoogleMapsWidgetContextToken = more.GoogleMapsWidgetContextToken
	}
	if more.RetrievalMetadata != nil {
		g.RetrievalMetadata = more.RetrievalMetadata
	}
	if more.SearchEntryPoint != nil {
		g.SearchEntryPoint = more.SearchEntryPoint
	}
	if len(more.SourceFlaggingUris) > 0 {
		g.SourceFlaggingUris = more.SourceFlaggingUris
	}
}

func appendNew(list, more []string) []string {
	list = slices.Clip(list)
	for _, s := range more {
		if !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}
