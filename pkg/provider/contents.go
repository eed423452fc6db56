package provider

import (
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/model"
)

// normalizeContents returns a conversation that services accept: every part has data,
// and every call has a response. Both must hold for the whole session, otherwise one odd
// event would make every later turn fail. It does not modify contents; unchanged ones
// are shared. Parts that belong to other vendors than the one given are dropped.
func normalizeContents(vendor string, contents []*genai.Content) []*genai.Content {
	return fillOpenCalls(dropEmptyContents(withoutForeignParts(contents, vendor)))
}

// normalizeRequest returns the request with normalized contents.
func normalizeRequest(vendor string, req *model.Request) *model.Request {
	whole := *req
	whole.Contents = normalizeContents(vendor, req.Contents)
	return &whole
}

// dropEmptyContents drops empty parts, and contents without parts. It keeps a part with
// a thought signature and its empty text.
func dropEmptyContents(contents []*genai.Content) []*genai.Content {
	if !slices.ContainsFunc(contents, hasEmpty) {
		return contents
	}
	kept := make([]*genai.Content, 0, len(contents))
	for _, c := range contents {
		if c = dropEmptyParts(c); c != nil {
			kept = append(kept, c)
		}
	}
	return kept
}

// dropEmptyParts returns nil if no part remains.
func dropEmptyParts(c *genai.Content) *genai.Content {
	if !hasEmpty(c) {
		return c
	}
	if c == nil {
		return nil
	}
	parts := slices.DeleteFunc(slices.Clone(c.Parts), isEmptyPart)
	if len(parts) == 0 {
		return nil
	}
	return &genai.Content{Role: c.Role, Parts: parts}
}

func hasEmpty(c *genai.Content) bool {
	return c == nil || len(c.Parts) == 0 || slices.ContainsFunc(c.Parts, isEmptyPart)
}

func isEmptyPart(p *genai.Part) bool {
	return p == nil || model.IsEmptyText(p) && len(p.ThoughtSignature) == 0
}

// pendingCallStatus is the placeholder response of a call without one.
const pendingCallStatus = "No response to this call is available: it may still be pending, or the call was interrupted."

// fillOpenCalls adds a placeholder response after each call without one, because
// services reject conversations with open calls. Such calls remain after an
// interrupted run, and while a long-running call is pending. The contents are only
// read.
func fillOpenCalls(contents []*genai.Content) []*genai.Content {
	whole := contents
	for i := 0; i < len(whole); i++ {
		calls := callsOf(whole[i])
		if len(calls) == 0 {
			continue
		}
		var next *genai.Content
		if i+1 < len(whole) && len(model.ResponsesOf(whole[i+1])) > 0 {
			next = whole[i+1]
		}
		open := openCallResponses(calls, next)
		if len(open) == 0 {
			continue
		}
		whole = slices.Clone(whole)
		if next == nil {
			whole = slices.Insert(whole, i+1, &genai.Content{Role: genai.RoleUser, Parts: open})
		} else {
			whole[i+1] = &genai.Content{Role: next.Role, Parts: slices.Concat(next.Parts, open)}
		}
	}
	return whole
}

func callsOf(c *genai.Content) []*genai.FunctionCall {
	if c == nil || c.Role != genai.RoleModel {
		return nil
	}
	return model.CallsOf(c)
}

// openCallResponses returns responses to the calls that next does not answer. Calls
// without an ID are matched by name.
func openCallResponses(calls []*genai.FunctionCall, next *genai.Content) []*genai.Part {
	open := slices.Clone(calls)
	for _, r := range model.ResponsesOf(next) {
		i := slices.IndexFunc(open, func(c *genai.FunctionCall) bool { return c.ID == r.ID && (r.ID != "" || c.Name == r.Name) })
		if i >= 0 {
			open = slices.Delete(open, i, i+1)
		}
	}
	parts := make([]*genai.Part, len(open))
	for i, c := range open {
		parts[i] = &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: c.ID, Name: c.Name, Response: map[string]any{"status": pendingCallStatus}}}
	}
	return parts
}

func modelContent(parts ...*genai.Part) *genai.Content {
	return &genai.Content{Role: genai.RoleModel, Parts: parts}
}

// finishMessage returns the error message of a finish reason; ADK has only that of
// MAX_TOKENS.
func finishMessage(reason genai.FinishReason) string {
	switch reason {
	case genai.FinishReasonMaxTokens:
		return "Maximum tokens reached"
	case genai.FinishReasonSafety:
		return "The service filtered the response for its content"
	}
	return ""
}
