package provider

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"google.golang.org/genai"

	"agenthost/internal/modelcall"
	"agenthost/pkg/model"
	"agenthost/pkg/template"
)

// renderParts renders a reply's new parts. When streaming, the text is split into chunks.
func (e *scriptEntry) renderParts(q *scriptInput, stream bool) ([]*genai.Part, error) {
	if e.Error != nil {
		message, err := e.renderField("error.message", e.message, q)
		if err != nil {
			return nil, err
		}
		failed := &model.Error{Code: e.Error.Code, Status: e.Error.Status, Message: message}
		if failed.Status == "" {
			failed.Status = modelcall.StatusWord(failed.Code)
		}
		return nil, failed
	}
	var parts []*genai.Part
	thought, err := e.renderField("thought", e.thought, q)
	if err != nil {
		return nil, err
	}
	if thought != "" {
		parts = append(parts, &genai.Part{Text: thought, Thought: true})
	}
	text, err := e.renderReply(q)
	if err != nil {
		return nil, err
	}
	for _, chunk := range e.splitChunks(text, stream) {
		parts = append(parts, &genai.Part{Text: chunk})
	}
	if err := e.checkRepeatedCalls(q); err != nil {
		return nil, err
	}
	for _, c := range e.Calls {
		parts = append(parts, &genai.Part{FunctionCall: &genai.FunctionCall{Name: c.Name, Args: maps.Clone(c.Args)}})
	}
	for _, p := range e.Parts {
		parts = append(parts, copyPart(p))
	}
	return parts, nil
}

// checkRepeatedCalls fails if the script calls an unknown tool again after the error in
// the same turn, because it would repeat the call forever.
func (e *scriptEntry) checkRepeatedCalls(q *scriptInput) error {
	tools, _ := q.vars["tools"].([]any)
	responses, _ := q.vars["responses"].(map[string]any)
	for _, c := range e.Calls {
		if _, answered := responses[c.Name]; answered && !slices.Contains(tools, any(c.Name)) {
			return e.fieldError("calls", fmt.Errorf("%s is not a tool of the agent and was already called in this turn; its tools are %s", c.Name, joinNames(tools)))
		}
	}
	return nil
}

func joinNames(names []any) string {
	if len(names) == 0 {
		return "none"
	}
	texts := make([]string, len(names))
	for i, n := range names {
		texts[i] = template.String(n)
	}
	return strings.Join(texts, ", ")
}

func (e *scriptEntry) renderReply(q *scriptInput) (string, error) {
	if e.JSON != nil {
		return jsonText(e.JSON.Any())
	}
	return e.renderField("text", e.text, q)
}

func (e *scriptEntry) renderField(field string, text *template.Paths, q *scriptInput) (string, error) {
	out, err := text.Render(q.lookupPath, nil)
	if err != nil {
		return "", e.fieldError(field, err)
	}
	return out, nil
}

// renderFinish returns the finish reason and its message.
func (e *scriptEntry) renderFinish(q *scriptInput) (genai.FinishReason, string, error) {
	if e.Finish == nil {
		return genai.FinishReasonStop, "", nil
	}
	message, err := e.renderField("finish.message", e.finish, q)
	return genai.FinishReason(e.Finish.Reason), message, err
}

func (e *scriptEntry) usageMetadata() *genai.GenerateContentResponseUsageMetadata {
	if e.Usage == nil {
		return nil
	}
	return &genai.GenerateContentResponseUsageMetadata{
		PromptTokenCount: e.Usage.Prompt, CandidatesTokenCount: e.Usage.Candidates,
		TotalTokenCount: e.Usage.Prompt + e.Usage.Candidates,
	}
}

const maxChunks = 16

// splitChunks splits text for streaming: between words if there are enough, otherwise
// between characters.
func (e *scriptEntry) splitChunks(text string, stream bool) []string {
	switch {
	case text == "":
		return nil
	case !stream || e.Chunks == 1:
		return []string{text}
	}
	atoms, n := splitWords(text), e.Chunks
	if n == 0 {
		n = min(len(atoms), maxChunks)
	}
	if n > len(atoms) {
		atoms = strings.Split(text, "")
		n = min(n, len(atoms))
	}
	chunks := make([]string, n)
	for i := range chunks {
		chunks[i] = strings.Join(atoms[i*len(atoms)/n:(i+1)*len(atoms)/n], "")
	}
	return chunks
}

// splitWords splits text before each word; spaces belong to the preceding word.
func splitWords(text string) []string {
	var all []string
	start, word, blank := 0, false, false
	for i, r := range text {
		if unicode.IsSpace(r) {
			blank = true
			continue
		}
		if blank && word {
			all = append(all, text[start:i])
			start = i
		}
		word, blank = true, false
	}
	return append(all, text[start:])
}
